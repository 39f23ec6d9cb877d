"""LSTM scores against nn.LSTM read word by word, the strategies against each other, and training steps."""

import pytest
import torch
from harness import all_sentences, sentence_numbers
from torch import nn

from trflm.errors import InputError
from trflm.language_model import LanguageModel
from trflm.lms.lstm import LARGE, LSTM, MEDIUM, SMALL, LSTMConfig, Preserve, Shuffle, streams, train_step, window_loss, windows
from trflm.lms.lstm import model as lstm_model
from trflm.lms.proposals.protocol import draw_symbol
from trflm.recurrent.prefixes import prefix_tree
from trflm.text import Batch, Vocab
from trflm.text import batch as text_batch


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


VOCAB = Vocab(["<unk>", *"abcdef"])
SENTENCES = ["a b c", "a b d", "a", "a b c", "b", "f f f f f f f", "a b c d", "zebra a"]


@pytest.fixture(
    params=[LSTMConfig(8, 12, 2, init=0.8), LSTMConfig(12, 12, 3, init=0.8, tied=True), LSTMConfig(5, 4, 1, init=0.8)]
)
def lstm(request: pytest.FixtureRequest) -> LSTM:
    return LSTM(VOCAB, request.param, seeded())


@torch.no_grad()
def plain_log_probs(lstm: LSTM, sentences: list[str], preserve: bool) -> list[list[float]]:
    """log p of every word and end, one sentence and one word at a time, with torch's own stacked LSTM."""
    config = lstm.config
    stack = nn.LSTM(config.embedding, config.hidden, config.layers)
    for k, layer in enumerate(lstm.layers):
        for name, value in layer.named_parameters():
            getattr(stack, name.replace("l0", f"l{k}")).data.copy_(value)
    result, state = [], None
    for sentence in sentences:
        ids = [VOCAB.index.get(word, 0) for word in sentence.split()]
        log_probs, state = [], state if preserve else None
        for symbol, following in zip([lstm.end, *ids], [*ids, lstm.end], strict=True):
            top, state = stack(lstm.embedding(torch.tensor([symbol])), state)
            log_probs.append(float(lstm.logits(top[0]).log_softmax(-1)[following]))
        result.append(log_probs)
    return result


def assert_scores(lm: LanguageModel, sentences: list[str], expected: list[list[float]]) -> None:
    explanation = lm.explain(sentences)
    torch.testing.assert_close(
        explanation.word_N, torch.tensor([p for row in expected for p in row[:-1]]), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(explanation.rest_B, torch.tensor([row[-1] for row in expected]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lm.log_prob(sentences), torch.tensor([sum(row) for row in expected]), rtol=1e-4, atol=1e-5)


def test_scoring_in_bf16_rounds_a_little_and_only_where_it_is_asked_for(lstm):
    """bf16 has 8 bits: factors and logits of up to 3 are off by 1/256 of themselves, some to either side."""
    exact = lstm.log_prob(SENTENCES)
    assert lstm.use_bf16(anyway=True)
    rounded = lstm.log_prob(SENTENCES)
    lstm.score_in_bf16 = False
    assert torch.equal(lstm.log_prob(SENTENCES), exact)
    assert 0 < float((rounded - exact).abs().max()) < 0.1


def test_shared_prefixes_score_as_one_by_one(lstm: LSTM) -> None:
    assert_scores(lstm, SENTENCES, plain_log_probs(lstm, SENTENCES, preserve=False))


def test_logits_in_chunks_are_the_same(lstm: LSTM, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lstm.log_prob(SENTENCES)
    monkeypatch.setattr(lstm_model, "PREFIXES_AT_ONCE", 3)
    torch.testing.assert_close(lstm.log_prob(SENTENCES), whole)


def test_preserve_reads_the_sentences_as_one_text(lstm: LSTM) -> None:
    assert_scores(Preserve(lstm), SENTENCES, plain_log_probs(lstm, SENTENCES, preserve=True))


def test_streams_of_preserve_start_anew(lstm: LSTM) -> None:
    halves = ["a b c", "a b d"], ["c c c", "e d c"]
    expected = [row for half in halves for row in plain_log_probs(lstm, half, preserve=True)]
    assert_scores(Preserve(lstm, n_streams=2), [*halves[0], *halves[1]], expected)


def test_more_streams_than_sentences_is_reset(lstm: LSTM) -> None:
    torch.testing.assert_close(
        Preserve(lstm, n_streams=100).log_prob(SENTENCES), lstm.log_prob(SENTENCES), rtol=1e-4, atol=1e-5
    )


def test_shuffle_is_preserve_in_another_order(lstm: LSTM) -> None:
    order = torch.randperm(len(SENTENCES), generator=seeded(5)).tolist()
    shuffled = plain_log_probs(lstm, [SENTENCES[b] for b in order], preserve=True)
    expected = [shuffled[order.index(b)] for b in range(len(SENTENCES))]
    assert_scores(Shuffle(Preserve(lstm), seed=5), SENTENCES, expected)


def test_prefixes_are_distinct_and_in_order() -> None:
    tree = prefix_tree(VOCAB.batch(SENTENCES), len(VOCAB))
    assert tree.sizes == [1, 4, 3, 3, 2, 1, 1, 1]
    assert bool((tree.parent_P.diff() >= 0).all())
    spelled: dict[int, tuple[str, ...]] = {0: ()}
    for prefix in range(1, len(tree.word_P)):
        spelled[prefix] = (*spelled[int(tree.parent_P[prefix])], VOCAB.words[int(tree.word_P[prefix])])
    assert len(set(spelled.values())) == len(spelled)
    words = [word if word in VOCAB else "<unk>" for sentence in SENTENCES for word in sentence.split()]
    assert [spelled[p][-1] for p in tree.prefix_N.tolist()] == words


@pytest.mark.parametrize(("config", "millions"), [(SMALL, 4.6), (MEDIUM, 19.8), (LARGE, 66.0)])
def test_sizes_are_those_of_the_paper(config: LSTMConfig, millions: float) -> None:
    with torch.device("meta"):
        lstm = LSTM(Vocab(["<unk>", *(f"w{i}" for i in range(9998))]), config, torch.Generator())
    assert lstm.n_parameters() / 1e6 == pytest.approx(millions, abs=0.06)


@pytest.mark.parametrize("settings", [{"hidden": 0}, {"dropout": 1.0}, {"tied": True, "hidden": 3}])
def test_wrong_settings(settings: dict) -> None:
    with pytest.raises(InputError, match=r"at least 1|below 1|tied"):
        LSTMConfig(**settings)


def test_streams_hold_the_text_with_its_ends() -> None:
    symbol_TS = streams(VOCAB.batch(["a b", "c", "d e f"]), end=7, n_streams=2)
    assert symbol_TS.T.tolist() == [[7, 1, 2, 7, 3], [7, 4, 5, 6, 7]]
    assert [window.T.tolist() for window in windows(symbol_TS, 3)] == [[[7, 1, 2, 7], [7, 4, 5, 6]], [[7, 3], [6, 7]]]
    with pytest.raises(InputError, match="too short for 20 streams"):
        streams(VOCAB.batch(["a b"]), end=7, n_streams=20)


def test_window_losses_add_up_to_the_score_of_the_text(lstm: LSTM) -> None:
    batch = VOCAB.batch(SENTENCES)
    state, total = lstm.zero_state(1), 0.0
    for window in windows(streams(batch, lstm.end, 1), 4):
        loss, state = window_loss(lstm, window, state, rng=None)
        total -= float(loss.detach()) * (len(window) - 1)
    assert total == pytest.approx(float(Preserve(lstm).log_prob(batch).sum()), rel=1e-5)


def test_dropout_is_drawn_from_the_given_generator_and_keeps_the_mean() -> None:
    lstm = LSTM(VOCAB, LSTMConfig(6, 6, 1, dropout=0.4, init=0.5), seeded())
    x = torch.ones(200, 200)
    dropped = lstm.dropout(x, seeded(1))
    assert torch.equal(dropped, lstm.dropout(x, seeded(1)))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert dropped.mean() == pytest.approx(1.0, abs=0.02)  # standard error 0.004
    assert torch.equal(lstm.dropout(x, None), x)


def test_training_learns_a_repeating_text_and_repeats_itself() -> None:
    text = VOCAB.batch(["a b c d", "e f"] * 40)

    def train() -> list[float]:
        lstm = LSTM(VOCAB, LSTMConfig(16, 16, 1, dropout=0.1), seeded())
        optimizer = torch.optim.Adam(lstm.parameters(), lr=0.02)
        generator, state, losses = seeded(1), lstm.zero_state(4), []
        for _ in range(4):
            for window in windows(streams(text, lstm.end, 4), 10):
                state, info = train_step(lstm, optimizer, window, state, generator, clip=5.0)
                losses.append(info.loss)
        assert not state.h_KSH.requires_grad
        return losses

    losses = train()
    assert losses[-1] < 0.3 < 1.5 < losses[0]
    assert losses == train()


def test_clipping_bounds_the_update() -> None:
    lstm = LSTM(VOCAB, LSTMConfig(4, 4, 1, init=0.5), seeded())
    before = nn.utils.parameters_to_vector(lstm.parameters()).detach()
    window = streams(VOCAB.batch(SENTENCES), lstm.end, 2).long()
    _, info = train_step(lstm, torch.optim.SGD(lstm.parameters(), lr=1.0), window, lstm.zero_state(2), seeded(), clip=0.01)
    moved = (nn.utils.parameters_to_vector(lstm.parameters()).detach() - before).norm()
    assert info.gradient_norm > 0.01
    assert float(moved) == pytest.approx(0.01, rel=1e-3)


def test_no_sentences_have_no_scores(lstm: LSTM) -> None:
    for lm in (lstm, Preserve(lstm), Shuffle(Preserve(lstm), seed=0)):
        assert lm.log_prob([]).shape == (0,)


def test_a_batch_of_int32_words_is_scored(lstm: LSTM) -> None:
    batch = VOCAB.batch(SENTENCES)
    torch.testing.assert_close(lstm.log_prob(Batch(batch.ids_N.int(), batch.lengths_B)), lstm.log_prob(SENTENCES))


def test_scores_in_parts_are_the_same(lstm: LSTM, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lstm.explain(SENTENCES)
    monkeypatch.setattr(text_batch, "SCORING_WORDS", 4)
    parts = lstm.explain(SENTENCES)
    torch.testing.assert_close(parts.word_N, whole.word_N)
    torch.testing.assert_close(parts.rest_B, whole.rest_B)


def test_samples_come_from_the_model() -> None:
    """40,000 draws: shares of all 39 sentences of up to three words, the largest error within four standard errors."""
    vocab, n = Vocab(["<unk>", "a", "b"]), 40_000
    lstm = LSTM(vocab, LSTMConfig(6, 6, 1, init=2.0), seeded(3))  # the first word shapes what follows the second
    drawn = lstm.draw(n, seeded(1))
    with torch.no_grad():
        h_1SH, _ = lstm.read(torch.tensor([[lstm.end]]), lstm.zero_state(1))
        end_at_once = float(lstm.logits(h_1SH[0, 0]).softmax(0)[lstm.end])
    short = all_sentences(3, 3)
    p = lstm.log_prob(short).double().exp() / (1 - end_at_once)
    counts = torch.bincount(sentence_numbers(drawn.select((drawn.lengths_B <= 3).nonzero().squeeze(1)), 3), minlength=39)
    assert ((counts / n - p) / (p * (1 - p) / n).sqrt()).abs().max() < 4


def test_a_symbol_is_drawn_in_two_stages() -> None:
    """250 symbols in three runs, 40,000 draws: every share within five standard errors, and none that cannot be."""
    n, logits_K = 40_000, 2 * torch.randn(250, generator=seeded(1))
    logits_K[[0, 99, 100, 249]] = -torch.inf
    p_K = logits_K.double().softmax(0)
    share_K = torch.bincount(draw_symbol(logits_K.expand(n, -1), seeded(2)), minlength=250) / n
    assert float(((share_K - p_K).abs() / (p_K * (1 - p_K) / n).sqrt().clamp(min=1e-9)).max()) < 5
    assert share_K[[0, 99, 100, 249]].tolist() == [0.0] * 4


def test_samples_of_a_length_and_by_a_seed(lstm: LSTM) -> None:
    for lm in (lstm, Preserve(lstm), Shuffle(Preserve(lstm), seed=0)):
        sentences = lm.sample(5, seed=3, length=4)
        assert [len(sentence.split()) for sentence in sentences] == [4] * 5
        assert sentences == lm.sample(5, seed=3, length=4) != lm.sample(5, seed=4, length=4)
    assert min(len(sentence.split()) for sentence in lstm.sample(50)) >= 1
    assert lstm.sample(0) == []
