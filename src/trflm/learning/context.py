"""What a learner of a random field is built from, and what all of them have in common.

`Context` is handed to `build(context)` of the configuration in [learner]. Its parts are made when they are first asked for, so
a learner pays for what it uses. Everything random in them is a function of the seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.field.snapshots import StoredProposal, TrainedField
from trflm.field.trf import TRF
from trflm.kinds import Start
from trflm.language_model import LanguageModel
from trflm.learning.batches import ShuffledBatches
from trflm.learning.deleted import DeletedReference
from trflm.learning.loop import Learner
from trflm.learning.replacements import Replacements
from trflm.learning.shards import Shards
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.noise import Noise, NoiseConfig, NoiseContext
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.reference import ReferenceConfig
from trflm.lms.unigram import Unigram
from trflm.potentials.protocol import PotentialConfig
from trflm.potentials.tilted import Tilted, log_lengths
from trflm.seeds import generator
from trflm.text import Batch, Text, Vocab, shares

REFERENCE_DRAWS = 20_000  # sentences whose lengths give the start of zeta under a reference

SAMPLE = 200_000  # sentences of a text on disk


@dataclass(frozen=True)
class Given:
    """The parameters of another run that this one starts from (--init)."""

    file: Path
    state: Mapping[str, Any]

    def fill(
        self, module: torch.nn.Module, section: str, *names: str, fitted: Callable[[Any], Any] = lambda state: state
    ) -> None:
        """Give the module the parameters under these names; `fitted` makes them ones of its size."""
        state = self.state
        for name in names:
            if name not in state:
                raise InputError(f"{self.file}: is the model of another kind of run; --init needs one of the same [model]")
            state = state[name]
        try:
            module.load_state_dict(fitted(state))
        except (RuntimeError, InputError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{self.file}: does not fit the {section} of this recipe: {reason}") from error

    @property
    def has_proposal(self) -> bool:
        return "lstm" in self.state.get("proposal", {})


@dataclass(frozen=True)
class Context:
    """The sections of a recipe and the text, and what is made of them."""

    vocab: Vocab
    text: Text
    model: PotentialConfig
    reference_config: ReferenceConfig
    proposal_config: LSTMProposalConfig
    noise_config: NoiseConfig
    seed: int
    device: str
    fresh: bool  # False: a checkpoint follows
    given: Given | None  # the run to start from
    load_model: Callable[[str], LanguageModel]
    shards: Shards  # how a step is cut up, for several processes

    def rng(self, number: int = 0) -> torch.Generator:
        """For parameters (0), proposal (1), chains (2), lengths of the reference (3), the start of AugSA (4, 5), a sample of
        the text (6)."""
        return generator(self.seed, "init", number)

    @cached_property
    def sample(self) -> Batch:
        """The text, or SAMPLE sentences of one that is on disk, for what needs sentences of it at hand at any time."""
        return self.text if isinstance(self.text, Batch) else self.text.some(SAMPLE, self.rng(6))

    @cached_property
    def start(self) -> Start:
        return Start(self.vocab, self.text, self.rng(), self.seed, self.fresh)

    @cached_property
    def pi(self) -> Tensor:
        return shares(self.text.length_counts())

    @cached_property
    def trf(self) -> TRF:
        """The field, fresh or from another run."""
        potential = self.model.build(self.start)
        trf = TRF(self.vocab, Tilted(potential, self.reference) if self.reference else potential, self.pi)
        if self.fresh and self.given:
            self.given.fill(trf, "[model] and [reference]", "trf")
        elif self.fresh and self.reference:
            start_zeta(trf, self.reference, self.rng(3))
        return trf.to(self.device)

    @cached_property
    def reference(self) -> NGram | None:
        return self.reference_config.build(self.vocab, self.text)

    @cached_property
    def deleted(self) -> DeletedReference | None:
        """Estimates of the reference that have not seen the sentence they score, where the recipe asks for them."""
        config = self.reference_config
        if self.reference is None or not config.folds:
            return None
        return DeletedReference.estimate(self.reference, self.text.whole(), self.vocab, config.order, config.folds)

    @cached_property
    def proposal(self) -> LSTMProposal:
        """Fresh, or that of the run to start from if it has one."""
        proposal = self.proposal_config.build(self.start.drawing(self.rng(1)))
        if self.fresh and self.given and self.given.has_proposal:
            self.given.fill(proposal, "[proposal]", "proposal", "lstm")
        return proposal.to(self.device)

    @cached_property
    def unigram(self) -> Unigram:
        return Unigram.estimate(self.vocab, self.text, self.pi)

    @cached_property
    def replacements(self) -> Replacements:
        """Any words will do that come at about the place, so those of a sample: a text on disk may have more bigrams than
        memory holds."""
        return Replacements.estimate(self.vocab, self.sample, self.unigram)

    @cached_property
    def noise(self) -> Noise:
        return self.noise_config.build(cast("NoiseContext", self))

    def ngram(self, order: int) -> NGram:
        if self.reference is not None and self.reference.tables.n == order:
            return self.reference
        return kneser_ney(self.text, self.vocab, KneserNeyConfig(order=order))

    def load(self, path: str) -> LanguageModel:
        return self.load_model(path)

    def batches(self, size: int, alike: bool = False) -> ShuffledBatches:
        self.shards.check_divides(min(size, len(self.text)), "learner.batch")
        return ShuffledBatches(self.text, size, self.seed, alike)


class FieldLearnerConfig(Protocol):
    """The section [learner] of a random field: a frozen dataclass beside its learner, named in `learning.FIELD_LEARNERS`."""

    @property
    def kind(self) -> str: ...

    def build(self, context: Context) -> Learner: ...


class FieldLearner:
    """What learners of a random field from shuffled sentences have in common."""

    trf: TRF
    batches: ShuffledBatches
    shards: Shards
    replacements: Replacements  # of those that are evaluated by them
    notes: Sequence[str] = ()

    @property
    def steps_per_epoch(self) -> int:
        return self.batches.per_epoch

    @property
    def model(self) -> TrainedField:
        self.write_zeta()
        return TrainedField(self.trf, self.sampled_by)

    def write_zeta(self) -> None:
        """Bring the field's zeta in line with what was learned; nothing to do where zeta itself is learned."""

    @property
    def sampled_by(self) -> StoredProposal:
        """What the field can be sampled by: the unigram, unless a learner has a better proposal."""
        return self.replacements.unigram

    def usable(self, dev: Batch) -> Batch:
        """The dev sentences of lengths that training has seen: for others pi is only a floor."""
        dev = dev.to(self.trf.zeta.device)
        known = dev.select((~self.trf.unseen(dev.lengths_B)).nonzero().squeeze(1))
        if not len(known):
            raise InputError(
                f"no dev sentence has a length that the training text has (1 to {self.trf.max_length}); give other dev text"
            )
        return known


def start_zeta(trf: TRF, reference: NGram, rng: torch.Generator) -> None:
    """log Z_l for phi = 0: the shares of the lengths in the reference."""
    log_Z = log_lengths(reference.draw(REFERENCE_DRAWS, rng).lengths_B, trf.max_length)
    trf.zeta[2:] = log_Z[2:] - trf.log_Z1()
