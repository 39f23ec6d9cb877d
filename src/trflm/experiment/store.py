"""Models on disk: a directory with config.json, vocab.txt, model.safetensors and perhaps snapshots/; or an ARPA file.

`FieldModel` is what a user loads of a random field: one field, or the fields of the last epochs whose scores are averaged
as in the paper, with the proposal they can be sampled by. LSTM and n-gram models are loaded as they are.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.experiment.data import build_trf
from trflm.experiment.recipe import LSTMModel, LSTMProposalSection, Model, NGramModel, PotentialModel, parse
from trflm.field.engine import Engine
from trflm.field.trf import TRF
from trflm.files.tensors import load_state, save_state
from trflm.language_model import Explanation, LanguageModel
from trflm.learning.augsa import AugSA
from trflm.learning.dnce import DNCE
from trflm.learning.lstm import LSTMLearner
from trflm.learning.nce import NCE
from trflm.learning.word_nce import WordNCE
from trflm.lms.lstm import LSTM
from trflm.lms.ngram import NGram, read_arpa
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.ngram import NGramProposal
from trflm.lms.proposals.protocol import Proposal
from trflm.lms.unigram import Unigram
from trflm.potentials.tilted import Tilted
from trflm.sampling.draw import draw_sentences
from trflm.sampling.mixture import TransMSConfig
from trflm.seeds import generator
from trflm.text import Batch, Vocab

REFERENCE = "reference.safetensors"  # in a run whose field tilts an n-gram model

Learner = AugSA | NCE | WordNCE | LSTMLearner


class FieldModel:
    """A trained random field as a language model. log_prob is the mean over its fields (snapshots)."""

    def __init__(self, fields: Sequence[TRF], proposal: Proposal, sampler: TransMSConfig) -> None:
        self.fields = list(fields)
        self.proposal = proposal
        self.sampler = sampler
        self.vocab = self.fields[-1].vocab
        self.engine = Engine(self.fields)

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        return self.engine.log_prob(self.vocab.batch(sentences))

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        every = [field.explain(batch) for field in self.fields]
        return Explanation(
            batch, torch.stack([e.word_N for e in every]).mean(0), torch.stack([e.rest_B for e in every]).mean(0)
        )

    def n_parameters(self) -> int:
        return self.fields[-1].n_parameters()

    def unseen(self, lengths_B: Tensor) -> Tensor:
        return self.fields[-1].unseen(lengths_B)

    def sample(self, n: int, *, seed: int = 1, length: int | None = None, burn_in: int = 50) -> list[str]:
        """n independent sentences of the last field, each from a chain of its own after `burn_in` sweeps."""
        if n < 1 or seed < 0 or burn_in < 0 or (length is not None and length < 1):
            raise InputError("the number of sentences and --length must be at least 1, seed and burn-in must not be negative")
        rng = generator(seed, "sample")
        batch = draw_sentences(rng, self.fields[-1], self.proposal, n, length, burn_in, self.sampler)
        return self.vocab.sentences(batch)


def save_model(path: Path, learner: Learner, step: int, snapshots: Sequence[str] = ()) -> None:
    """model.safetensors, or a snapshot, beside the config.json and vocab.txt that are already there.

    `snapshots` names the files whose scores are averaged in place of this one's.
    """
    match learner:
        case LSTMLearner():
            note = {"step": step, "vocab": vocab_hash(learner.lstm.vocab)}
            save_state(path, {"lstm": learner.lstm.state_dict()}, content="model", **note)
        case AugSA():
            save_field(path, learner.trf, {"lstm": learner.proposal.state_dict()}, step, snapshots)
        case DNCE():
            learner.write_zeta()
            save_field(path, learner.trf, {"lstm": learner.proposal.state_dict()}, step, snapshots)
        case _:
            learner.write_zeta()
            unigram = learner.dev_choice.replacements.unigram
            save_field(path, learner.trf, {"unigram": unigram.log_word_V}, step, snapshots)


def save_field(path: Path, trf: TRF, proposal: dict[str, Any], step: int, snapshots: Sequence[str]) -> None:
    note = {"step": step, "vocab": vocab_hash(trf.vocab), "log_Z1": trf.log_Z1(), "snapshots": list(snapshots)}
    save_state(path, {"trf": trf.state_dict(), "proposal": proposal}, content="model", **note)


def save_reference(run: Path, trf: TRF) -> None:
    """The reference of a field, if it has one and the run does not hold it yet: it never changes."""
    file = run / REFERENCE
    if isinstance(trf.potential, Tilted) and not file.exists():
        assert isinstance(trf.potential.reference, NGram)
        save_ngram(file, trf.potential.reference)


def save_ngram(path: Path, ngram: NGram) -> None:
    save_state(path, {"ngram": ngram.to_tensors()}, content="model", vocab=vocab_hash(ngram.vocab))


def vocab_hash(vocab: Vocab) -> str:
    return hashlib.sha256(vocab.to_text().encode()).hexdigest()


def load_model(path: Path | str, bf16: bool = False) -> LanguageModel:
    """The model of a run directory, a saved model directory or an ARPA file; of a field, the snapshots it kept.

    With `bf16` a field's products are in bf16 if the CPU has instructions for it (see `Engine.use_bf16`).
    """
    path = Path(path)
    if path.name.endswith((".arpa", ".arpa.gz")):
        return read_arpa(path)
    if not path.is_dir():
        problem = "not a model directory" if path.exists() else "there is no such directory"
        raise InputError(f"{path}: {problem}; give what trf train wrote, or an ARPA file (.arpa, .arpa.gz)")
    config = read_config(path / "config.json")
    vocab = Vocab.from_list(path / "vocab.txt")
    last = path / "model.safetensors"
    if not last.exists():
        raise InputError(f"{path}: no model was saved here yet; let trf train reach its first checkpoint")
    with belonging(last):
        recipe = config["recipe"]
        model = parse(Model, recipe["model"], str(path / "config.json"), "model")
    match model:
        case LSTMModel():
            return load_lstm(last, model, vocab)
        case NGramModel():
            return load_ngram(last, vocab)
        case _:
            names = load_content(last, vocab)[1].get("snapshots", [])
            files = [path / "snapshots" / name for name in names] or [last]
            reference = load_ngram(path / REFERENCE, vocab) if recipe.get("reference", {}).get("order") else None
            loaded = [load_field(file, model, recipe, vocab, reference) for file in files]
            learner = recipe.get("learner", {})
            sampler = TransMSConfig(**{k: learner[k] for k in ("jump_range", "block", "trials") if k in learner})
            lm = FieldModel([field for field, _ in loaded], loaded[-1][1], sampler)
            if bf16:
                lm.engine.use_bf16()
            return lm


def load_field(
    file: Path, model: PotentialModel, recipe: dict[str, Any], vocab: Vocab, reference: NGram | None
) -> tuple[TRF, Proposal]:
    """One field and its proposal."""
    state, note = load_content(file, vocab)
    with belonging(file):
        trf = build_trf(model, vocab, state["trf"]["pi"], reference)
        trf.load_state_dict(state["trf"])
        trf.remember_log_Z1(float(note["log_Z1"]))
        if "unigram" in state["proposal"] and reference:
            return trf, NGramProposal(reference)
        if "unigram" in state["proposal"]:
            return trf, Unigram(vocab, trf.pi, state["proposal"]["unigram"])
        section = parse(LSTMProposalSection, recipe["proposal"], str(file.parent / "config.json"), "proposal")
        proposal = LSTMProposal(section, len(vocab), state["proposal"]["lstm"].get("output.class_V"))
        proposal.load_state_dict(state["proposal"]["lstm"])
        return trf, proposal


def load_lstm(file: Path, model: LSTMModel, vocab: Vocab) -> LSTM:
    state, _ = load_content(file, vocab)
    with belonging(file):
        lstm = LSTM(vocab, model, generator(0, "init"))
        lstm.load_state_dict(state["lstm"])
        return lstm


def load_ngram(file: Path, vocab: Vocab) -> NGram:
    state, _ = load_content(file, vocab)
    with belonging(file):
        return NGram.from_tensors(vocab, state["ngram"])


def load_content(file: Path, vocab: Vocab) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, note) of a model file of this vocabulary."""
    state, note = load_state(file)
    if note.get("content") != "model":
        raise InputError(f"{file}: holds {note.get('content')!r}, not a model")
    if note.get("vocab", vocab_hash(vocab)) != vocab_hash(vocab):
        raise InputError(f"{file}: does not belong to the vocab.txt beside it; copy the whole directory again")
    return state, note


@contextmanager
def belonging(file: Path) -> Iterator[None]:
    """What does not fit together is said in one way."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError, InputError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: does not belong to the config.json and vocab.txt beside it: {reason}") from error


def read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; is {path.parent} a run that trf train made?") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged or not ours: {error}") from error
    return config
