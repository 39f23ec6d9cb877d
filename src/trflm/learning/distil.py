"""Distillation: a field learns to score as its teachers do, on sentences of the text that are wrong in a few places (`copies`).

    t(x)  = sum_k w_k log p_k(x) = sum_i t_i(x)             the teachers: fields, LSTMs or n-gram models
    S(x)  = log pi_l + phi(x) - log Z_l + b l = sum_i S_i   the student, log Z_l as it was at the start and b learned

`loss = "words"`: what each word adds, smooth_L1(S_i - t_i) averaged over the words of the copies. A teacher can say what each
word adds (log p of the word given those before; what a position adds to a field; the end counts for the last word), and a
student that agrees on every word agrees on every sentence. One number for each word of a pass makes this the quick one.

`loss = "differences"`: the sums alone, where the student may have its own way word by word. Of a sentence of the text and its
copies, d_g = (S - t)(x_g) less its mean over the group, and smooth_L1(d_g) is averaged. Only differences between sentences
count, so teachers need not be normalised. `loss = "listwise"` compares the two softmaxes over a group, at `temperature`:
sum_g softmax(t / T)_g (log softmax(t / T)_g - log softmax(S / T)_g), which says much of near copies and little of far ones.

smooth_L1 is a square up to `beta` and a straight line beyond. b is one number for all lengths: the course of log Z_l stays that
of the start (a `cloze` field's is straight).

The sentences are those of the text, and `drawn` more in every step that a teacher draws; with `batch = 0` those alone. A
student that tilts a Kneser-Ney model needs that: an n-gram model is far too sure of the text it was estimated from, and the
student would learn to take that back. Of drawn sentences it is as unsure as of any others.

Shapes: B sentences and copies, N words in all, m the longest sentence of training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.errors import InputError
from trflm.field.trf import TRF
from trflm.kinds import PathName
from trflm.language_model import Explanation, LanguageModel
from trflm.learning.context import Context, FieldLearner
from trflm.learning.copies import Copies, CopiesConfig, Group
from trflm.learning.descent import Descent, DescentConfig
from trflm.learning.drawn import Draws, TextAndDraws
from trflm.learning.loop import Metrics
from trflm.learning.replacements import DevChoice, Replacements
from trflm.learning.shards import WHOLE, Part, Shard, Shards
from trflm.lms.lstm import LSTM
from trflm.lms.ngram import NGram
from trflm.potentials.tilted import Tilted
from trflm.ranges import Amount, Count, Positive, Weight
from trflm.seeds import generator
from trflm.text import Batch
from trflm.text.lengths import PI_FLOOR

DEV_SENTENCES = 500


@dataclass(frozen=True)
class DistilConfig(CopiesConfig, DescentConfig):
    """[learner] kind = "distil"."""

    teachers: tuple[PathName, ...] = ()  # run directories or ARPA files
    weights: tuple[Weight, ...] = ()  # w, one for each teacher; none: equal ones that sum to one
    batch: Amount = 40  # sentences of the text a step, each with its copies
    drawn: Amount = 0  # sentences a step that the first n-gram or LSTM model among the teachers draws
    uses: Count = 4  # how often each of those is used
    loss: Literal["words", "differences", "listwise"] = "words"  # what is taught (see learning/distil.py)
    share: Weight = 1.0  # a: the exponent of the reference, if there is one
    beta: Positive = 2.0  # nats: greater errors of a difference count linearly
    temperature: Positive = 4.0  # of the listwise loss
    kind: Literal["distil"] = "distil"

    def __post_init__(self) -> None:
        CopiesConfig.__post_init__(self)
        DescentConfig.__post_init__(self)
        if not self.teachers:
            raise ValueError('teachers is missing: give runs to learn from, as in teachers = ["runs/trf-blstm-start"]')
        if self.weights and len(self.weights) != len(self.teachers):
            raise ValueError(f"there are {len(self.teachers)} teachers and {len(self.weights)} weights; give one for each")
        if self.weights and not any(self.weights):
            raise ValueError("weights: one of them must not be 0")
        if min(self.batch, self.drawn) < 0 or self.batch + self.drawn < 1 or self.uses < 1:
            raise ValueError("batch and drawn must not be negative nor both 0, uses must be at least 1")
        if not (self.share >= 0 and self.beta > 0 and self.temperature > 0):
            raise ValueError("share must not be negative, beta and temperature must be positive")

    def build(self, context: Context) -> "Distil":
        models = [context.load(name) for name in self.teachers]
        for name, model in zip(self.teachers, models, strict=True):
            if model.vocab.words != context.vocab.words:
                raise InputError(f"learner.teachers: {name!r} has another vocabulary than this run; train it on this text")
            if self.bf16 and isinstance(model, LSTM):
                model.use_bf16()
        copies = Copies(context.sample, len(context.vocab), context.trf.max_length, self)
        return Distil(
            context.trf,
            Teacher(models, self.weights),
            copies,
            context.replacements,
            self.batches(context, models),
            self,
            context.shards,
        )

    def batches(self, context: Context, teachers: Sequence[LanguageModel]) -> "Batches":
        if not self.drawn:
            return context.batches(self.batch)
        able = [model for model in teachers if isinstance(model, NGram | LSTM)]
        if not able:
            raise InputError("learner.drawn: no teacher can be drawn from; add an n-gram or LSTM model, or set it to 0")
        context.shards.check_divides(self.drawn, "learner.drawn")
        text = context.batches(self.batch) if self.batch else None
        per_epoch = text.per_epoch if text else max(len(context.text) // self.drawn, 1)
        return TextAndDraws(text, Draws(able[0], self.drawn, self.uses, context.trf.max_length, context.seed), per_epoch)


class Batches(Protocol):
    """The sentences of each step, and how many steps make an epoch."""

    @property
    def per_epoch(self) -> int: ...

    def of_step(self, step: int, shard: Shard | None = None) -> Batch: ...


class Scores(Protocol):
    """What is asked of a teacher: every language model, and a bare field, has it."""

    def log_prob(self, sentences: Batch) -> Tensor: ...

    def explain(self, sentences: Batch) -> Explanation: ...


class Teacher:
    """t(x): the weighted sum of the log-probabilities of several models."""

    def __init__(self, models: Sequence[Scores], weights: Sequence[float] = ()) -> None:
        weights = list(weights) or [1 / len(models)] * len(models)
        # One of weight 0 is there to be drawn from; it is not asked for scores.
        self.models = [model for model, weight in zip(models, weights, strict=True) if weight]
        self.weights = [weight for weight in weights if weight]

    @torch.no_grad()
    def score(self, batch: Batch) -> Tensor:
        """[B] float64."""
        weighted = [w * model.log_prob(batch).double() for w, model in zip(self.weights, self.models, strict=True)]
        return torch.stack(weighted).sum(0).to(batch.device)

    @torch.no_grad()
    def word_scores(self, batch: Batch) -> Tensor:
        """[N] float64: t_i, the ends with the last words."""
        total_N = torch.zeros(batch.n_words, dtype=torch.float64, device=batch.device)
        for weight, model in zip(self.weights, self.models, strict=True):
            explanation = model.explain(batch)
            end_N = torch.where(batch.remaining_N == 0, explanation.rest_B.to(batch.device)[batch.sentence_N], 0.0)
            total_N += weight * (explanation.word_N.to(batch.device) + end_N).double()
        return total_N


class Distil(FieldLearner):
    """Trains the potential of a TRF, with or without a reference."""

    def __init__(
        self,
        trf: TRF,
        teacher: Teacher,
        copies: Copies,
        replacements: Replacements,
        batches: Batches,
        config: DistilConfig,
        shards: Shards = WHOLE,
    ) -> None:
        self.trf, self.teacher, self.copies, self.sentences, self.config = trf, teacher, copies, batches, config
        self.shards = shards
        self.replacements, self.dev_choice = replacements, DevChoice(replacements)
        if isinstance(trf.potential, Tilted):
            trf.potential.share.fill_(config.share)
        self.slope = nn.Parameter(torch.zeros_like(trf.zeta[0]))  # b
        self.log_norm = trf.log_norm(
            torch.arange(len(trf.zeta), device=trf.zeta.device)
        )  # [m+1] log pi_l - log Z_l at the start
        inner = trf.potential.potential if isinstance(trf.potential, Tilted) else trf.potential
        self.descent = Descent(inner, [self.slope], config)
        self._dev: tuple[Group, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        return self.sentences.per_epoch

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        def part_of(shard: Shard) -> Part:
            self.descent.potential.forget()
            batch = self.sentences.of_step(number, shard).to(self.trf.zeta.device)
            group = self.copies.of(batch, shard.rng)
            if self.config.loss == "words":
                copies, weight = group.copies(), group.copies().n_words
                loss, explained = self.word_loss(self.teacher.word_scores(copies), self.student_words(copies, shard.rng))
            else:
                weight = len(batch)  # each has as many copies
                loss, explained = self.loss(group, self.teacher.score(group.batch), self.student(group.batch, shard.rng))
            return Part(loss, weight, {"loss": float(loss.detach()), "explained": explained})

        metrics = self.shards.mean_gradient(self.descent.theta, rng, part_of)
        norm, rate = self.descent.step(number, number / self.steps_per_epoch)
        return {**metrics, "gradient_norm": norm, "lr": rate}

    def student(self, batch: Batch, rng: torch.Generator | None) -> Tensor:
        """[B] S(x) of the potential that is being changed."""
        return batch.sum_words(self.student_words(batch, rng))

    def student_words(self, batch: Batch, rng: torch.Generator | None) -> Tensor:
        """[N] S_i: log pi_l - log Z_l is shared equally by the words."""
        word_N = self.descent.potential.contributions(batch, rng).double()
        tilted = self.trf.potential
        if isinstance(tilted, Tilted):
            reference = tilted.reference.explain(batch)
            end_N = torch.where(batch.remaining_N == 0, reference.rest_B.to(word_N)[batch.sentence_N], 0.0)
            word_N = float(tilted.factor) * word_N + float(tilted.share) * (reference.word_N.to(word_N) + end_N)
        return word_N + (self.norm(batch) / batch.lengths_B)[batch.sentence_N]

    def norm(self, batch: Batch) -> Tensor:
        """[B] log pi_l - log Z_l + b l."""
        return self.log_norm[batch.lengths_B.clamp(max=self.trf.max_length)] + self.slope * batch.lengths_B

    def word_loss(self, teacher_N: Tensor, student_N: Tensor) -> tuple[Tensor, float]:
        """The loss of words, and the share of the teacher's variance over words that the student explains."""
        off_N = student_N - teacher_N
        explained = 1 - float(off_N.detach().square().mean() / teacher_N.var(correction=0).clamp(min=1e-9))
        return F.smooth_l1_loss(off_N, torch.zeros_like(off_N), beta=self.config.beta), explained

    def loss(self, group: Group, teacher_B: Tensor, student_B: Tensor) -> tuple[Tensor, float]:
        """The loss of sums, and the share of the teacher's differences (their squares) that the student explains."""
        wanted_B, got_B = group.centred(teacher_B), group.centred(student_B)
        off_B = got_B - wanted_B
        explained = 1 - float(off_B.detach().square().sum() / wanted_B.square().sum().clamp(min=1e-9))
        if self.config.loss == "listwise":
            return listwise(group, teacher_B / self.config.temperature, student_B / self.config.temperature), explained
        return F.smooth_l1_loss(off_B, torch.zeros_like(off_B), beta=self.config.beta), explained

    def evaluate(self, dev: Batch) -> Metrics:
        """The loss of sums on the same copies every time, whatever is learned by; and as criterion how well the words of dev
        text are chosen among others."""
        known = self.usable(dev)
        if self._dev is None:
            group = self.copies.of(known.select(torch.arange(min(len(known), DEV_SENTENCES))), generator(0, "dev", 2))
            self._dev = group, self.teacher.score(group.batch)
        group, teacher_B = self._dev
        with torch.no_grad():
            loss, explained = self.loss(group, teacher_B, self.trf.phi(group.batch) + self.norm(group.batch))
        choice = self.dev_choice.of(known, self.trf)
        return {"dev_loss": float(loss), "dev_explained": explained, "dev_choice": choice, "criterion": choice}

    def write_zeta(self) -> None:
        """log Z_l is that of the start less b l; log Z_1 is exact."""
        lengths = torch.arange(len(self.log_norm), device=self.log_norm.device)
        log_Z = self.trf.pi.clamp(min=PI_FLOOR).log() - self.log_norm - self.slope.detach() * lengths
        self.trf.zeta.copy_(log_Z - self.trf.log_Z1())
        self.trf.zeta[:2] = 0.0

    def state_dict(self) -> dict[str, Any]:
        self.write_zeta()
        state = {"trf": self.trf.state_dict(), "descent": self.descent.state_dict()}
        return {**state, "slope": self.slope.detach(), "log_norm": self.log_norm}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trf.load_state_dict(state["trf"])
        self.descent.load_state_dict(state["descent"])
        self.log_norm.copy_(state["log_norm"])
        with torch.no_grad():
            self.slope.copy_(state["slope"])


def listwise(group: Group, teacher_B: Tensor, student_B: Tensor) -> Tensor:
    """The mean over the groups of KL(softmax(teacher) || softmax(student))."""
    order_B = torch.argsort(torch.cat([torch.arange(group.n_sources), group.source_R]), stable=True).to(teacher_B.device)
    log_t_GK, log_s_GK = (value_B[order_B].view(group.n_sources, -1).log_softmax(1) for value_B in (teacher_B, student_B))
    return (log_t_GK.exp() * (log_t_GK - log_s_GK)).sum(1).mean()
