"""A score depends on its utterance alone; a Rescorer survives moving, threads, forks and pickling."""

import json
import math
import multiprocessing
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from deploy.tiny_models import model, some_lists

import trflm
from trflm.deploy.rescorer import Rescorer
from trflm.errors import InputError
from trflm.evaluation.nbest import NBest, NBestList
from trflm.evaluation.second_pass.scores import EMPTY_LOG_PROB
from trflm.language_model import default_oov_penalty
from trflm.speed.word_cache import FEWEST, WordCache

KINDS = ["cnn", "blstm", "lstm", "ngram"]


def both() -> Rescorer:
    return Rescorer({model("cnn"): 0.5, model("ngram"): 0.7}, mapping="lower", word_penalty=0.2)


def bits(rescorer: Rescorer, lists: list[NBestList]) -> dict[str, list[str]]:
    return {scored.nbest.utterance: [x.hex() for x in scored.score_K.tolist()] for scored in rescorer.rescore(lists)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_depends_on_its_utterance_alone(kind: str) -> None:
    lists = some_lists(40)
    together = bits(Rescorer({model(kind): 0.7}), lists)
    used = Rescorer({model(kind): 0.7})
    backwards = {}
    for nbest in reversed(lists):  # after other lists than before
        backwards |= bits(used, [nbest])
    alone = {}
    for nbest in lists[::9]:  # by a model that has seen nothing else
        alone |= bits(Rescorer({model(kind): 0.7}), [nbest])
    assert together == backwards
    assert alone.items() <= together.items()


def test_rescoring_from_python_is_the_same_to_the_bit() -> None:
    lists = some_lists(12)
    lm = trflm.load(model("cnn"))
    scored = trflm.rescore(NBest.collect(lists), {lm: 0.7}, mapping="lower")
    expected = [bit for of in bits(Rescorer({model("cnn"): 0.7}, mapping="lower"), lists).values() for bit in of]
    assert [x.hex() for x in scored.score_H.tolist()] == expected


def test_words_are_kept_the_same_however_few_are_asked_for() -> None:
    """The first words of a model's cache, one after another or all at once; a row has the same bits."""
    weight = torch.randn(40, 33, generator=torch.Generator().manual_seed(0))

    def rows(parts: list[torch.Tensor]) -> torch.Tensor:
        cache = WordCache()
        for part in parts:
            kept, slots = cache.find(
                part, 40, 33, [weight], lambda words, out: torch.mm(weight[words], weight.t() @ weight, out=out)
            )
        kept, slots = cache.find(torch.arange(40), 40, 33, [weight], lambda words, out: None)
        return kept[slots]

    assert torch.equal(rows([torch.arange(40)]), rows(list(torch.arange(40).split(1))))
    asked: list[int] = []
    WordCache().find(torch.arange(3), 40, 33, [weight], lambda words, out: asked.append(len(words)))
    assert asked == [FEWEST]


def test_the_result_explains_itself() -> None:
    r = both()
    result = r(["THE cat sat", "the emu sat", "the cat  ran", ""], acoustic=[-10.0, -9.5, -9.9, -30.0], words=True)
    assert result.best == result.texts[result.order[0]]
    assert sorted(result.order) == [0, 1, 2, 3]
    assert [result.scores[k] for k in result.order] == sorted(result.scores, reverse=True)
    for score, parts in zip(result.scores, result.parts, strict=True):
        assert sum(parts.values()) == pytest.approx(score)
    assert result.parts[1]["ngram OOV words"] == pytest.approx(-0.7 * default_oov_penalty(trflm.load(model("ngram"))))
    assert result.parts[0]["words"] == pytest.approx(0.6)
    assert result.words is not None
    for k in range(3):
        for name, of in result.words[k].items():
            added = result.parts[k][name] + result.parts[k][f"{name} OOV words"]
            assert sum(of.added) + of.rest == pytest.approx(added, abs=1e-4)
    assert result.words[0]["ngram"].words == ("the", "cat", "sat")
    assert result.parts[3]["ngram"] == pytest.approx(0.7 * EMPTY_LOG_PROB)  # an empty hypothesis has a stated score
    assert r("the cat sat").best == "the cat sat"
    assert r(["the cat sat", "cat the sat"]).best == "the cat sat"  # without acoustic scores the models decide


def test_a_single_string_is_one_sentence_and_a_mapping_has_a_name() -> None:
    lm = trflm.load(model("ngram"))
    assert torch.equal(lm.log_prob("the cat sat"), lm.log_prob(["the cat sat"]))
    lists = NBest.collect([NBestList("u", ["The CAT sat"], {"acoustic": torch.zeros(1).numpy()})])
    assert trflm.rescore(lists, {lm: 1.0}, mapping="lower").parts(0)["lm1 OOV words"] == 0


@pytest.mark.parametrize(
    ("texts", "acoustic", "message"),
    [([], [], "no hypothesis"), (["a"], [1.0, 2.0], "must be 1 finite"), (["a"], [math.nan], "must be 1 finite")],
)
def test_wrong_calls(texts: list[str], acoustic: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        both()(texts, acoustic)
    with pytest.raises(InputError, match="needs a language model"):
        Rescorer({})


def test_the_penalty_of_unknown_words_belongs_to_the_model(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c d\na a b <unk>\n<unk> e f f\n")
    for size, types in [(4, 4 + 2 - 1), (0, 2)]:  # <unk> twice in the text; with three words kept, c d e or f are unknown too
        run = tmp_path / f"run{size}"
        (tmp_path / "r.toml").write_text(
            f'[data]\ntrain = "{tmp_path}/text"\nvocab_size = {size}\n[model]\nkind = "ngram"\norder = 2\n'
        )
        lm = trflm.train(tmp_path / "r.toml", run, quiet=True)
        assert lm.origin.unknown_types == types
        assert default_oov_penalty(lm) == math.log(types)
        config = json.loads((run / "config.json").read_text())
        del config["unknown_types"]  # a run of before this was counted
        (run / "config.json").write_text(json.dumps(config))
        assert default_oov_penalty(trflm.load(run)) == math.log(len(lm.vocab))


def test_a_directory_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("kitty\tcat\n")
    made = Rescorer({model("cnn"): 0.5, model("ngram"): 0.7}, mapping=f"lower,table={tmp_path}/table")
    made.save(tmp_path / "second-pass")
    (tmp_path / "table").unlink()
    (tmp_path / "second-pass").rename(tmp_path / "moved")
    lists = [*some_lists(9), NBestList("x", ["the kitty sat"], {"acoustic": torch.zeros(1).numpy()})]
    loaded = Rescorer.load(tmp_path / "moved")
    assert bits(loaded, lists) == bits(made, lists)
    assert loaded("kitty").parts[0]["cnn OOV words"] == 0
    assert loaded.sha256 == made.sha256
    stored = json.loads((tmp_path / "moved/rescorer.json").read_text())
    assert stored["made by"]["trflm"] == trflm.__version__
    assert not list((tmp_path / "moved").rglob("training.safetensors"))  # only what scoring needs
    with pytest.raises(InputError, match="exists already"):
        made.save(tmp_path / "moved")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda d: shutil.copyfile(d / "models/other/model.safetensors", d / "models/ngram/model.safetensors"),
            "is not the model",
        ),
        (lambda d: (d / "rescorer.json").unlink(), "is not the directory of a rescorer"),
        (lambda d: (d / "rescorer.json").write_text("{"), "damaged or not ours"),
        (
            lambda d: (d / "rescorer.json").write_text((d / "rescorer.json").read_text().replace("models/", "../models/")),
            "leads out",
        ),
    ],
)
def test_a_directory_that_was_changed_is_refused(tmp_path: Path, spoil, message: str) -> None:
    Rescorer({model("ngram"): 0.7}).save(tmp_path / "r")
    other = trflm.train(
        model("ngram").parent / "tiny.toml", tmp_path / "r/models/other", overrides=["model.order=2"], quiet=True
    )
    assert other
    spoil(tmp_path / "r")
    with pytest.raises(InputError, match=message):
        Rescorer.load(tmp_path / "r")


def test_threads_share_a_rescorer() -> None:
    lists = some_lists(60)
    expected = bits(both(), lists)
    shared = both()
    with ThreadPoolExecutor(4) as pool:
        found = {utterance: of for part in pool.map(lambda n: bits(shared, [n]), lists) for utterance, of in part.items()}
    assert found == expected


def work(rescorer: Rescorer) -> dict[str, list[str]]:
    """In another process."""
    return bits(rescorer, some_lists(5))


FORKED: list[Rescorer] = []  # what a forked process has without being sent it


def work_by_id(index: int) -> dict[str, list[str]]:
    return work(FORKED[index])


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_rescorer_is_sent_to_another_process_by_path(tmp_path: Path, method: str) -> None:
    both().save(tmp_path / "r")
    rescorer = Rescorer.load(tmp_path / "r")
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(work, [rescorer]) == work(rescorer)
    with pytest.raises(TypeError, match="save it first"):
        pickle.dumps(both())
    sent = pickle.dumps(rescorer)
    stored = json.loads((tmp_path / "r/rescorer.json").read_text())
    stored["weights"]["scale"] += 1
    (tmp_path / "r/rescorer.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="has changed since"):
        pickle.loads(sent)


def test_a_forked_process_scores_the_same_and_does_not_hang(torch_threads) -> None:
    """With torch's threads in use before, and a lock held by a thread that the child does not have."""
    rescorer = both()
    FORKED.append(rescorer)
    expected = work(rescorer)
    torch_threads(2)
    torch.mm(torch.ones(600, 600), torch.ones(600, 600))  # makes OpenMP's threads
    cnn = rescorer.models["cnn"].fields[0].potential  # pyright: ignore[reportAttributeAccessIssue]
    cnn.word_table.forget()
    cnn.word_table.lock.acquire()
    try:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            found = pool.apply_async(work_by_id, [len(FORKED) - 1])
            assert found.get(timeout=120) == expected
            assert pool.apply(torch.get_num_threads) == 1
    finally:
        cnn.word_table.lock.release()


def test_fork_while_another_thread_scores() -> None:
    rescorer, stop = both(), threading.Event()
    FORKED.append(rescorer)
    expected = work(rescorer)

    def busy() -> None:
        while not stop.is_set():
            rescorer(["the cat sat", "a dog ran"])

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work_by_id, [len(FORKED) - 1] * 4) == [expected] * 4
    finally:
        stop.set()
        thread.join()


def test_what_the_package_offers() -> None:
    names = {"load", "Rescorer", "read_nbest", "rescore", "tune", "train", "word_errors", "perplexity"}
    assert names | {"__version__"} == set(dir(trflm))
    for name in names:
        assert getattr(trflm, name).__doc__, name
    assert (Path(trflm.__file__).parent / "py.typed").exists()


def test_tune_from_python(tmp_path: Path) -> None:
    lists = NBest.collect(some_lists(20))
    references = {nbest.utterance: nbest.texts[1] for nbest in lists}
    tuned = trflm.tune(lists, references, model("ngram"), mapping="lower")
    tuned.save(tmp_path / "r")
    loaded = Rescorer.load(tmp_path / "r")
    assert loaded.tuned is not None
    best = {scored.nbest.utterance: scored.best for scored in loaded.rescore(lists)}
    assert trflm.word_errors(best, references).rate == loaded.tuned.dev.wer
