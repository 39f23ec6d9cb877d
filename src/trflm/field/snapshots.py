"""A trained random field: what a run stores of it (`TrainedField`), and what a user loads (`FieldModel`), one field or the
fields of the last epochs whose scores are averaged as in the paper (section 5.2), with the proposal they can be sampled by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from trflm.field.engine import Engine
from trflm.field.trf import TRF
from trflm.language_model import Explanation, LanguageModel, Origin, Sampled, Stored
from trflm.potentials.tilted import Tilted
from trflm.text import Batch, Vocab

REFERENCE = "reference.safetensors"  # in a run whose field tilts an n-gram model


class StoredProposal(Protocol):
    def to_state(self) -> dict[str, Any]: ...


class Sampler(Protocol):
    """How a field is sampled: see `sampling.draw.FieldSampler`."""

    @property
    def proposal(self) -> Any: ...

    def draw(self, rng: torch.Generator, trf: TRF, n: int, length: int | None, burn_in: int) -> Batch: ...


@dataclass(frozen=True)
class TrainedField:
    """A field as it is at this moment, and what it can be sampled by."""

    trf: TRF
    proposal: StoredProposal

    @property
    def vocab(self) -> Vocab:
        return self.trf.vocab

    def to_state(self) -> dict[str, Any]:
        return {"trf": self.trf.state_dict(), "proposal": self.proposal.to_state()}

    def note(self) -> dict[str, Any]:
        return {"log_Z1": self.trf.log_Z1(), "snapshots": []}

    def recall(self, note: Mapping[str, Any]) -> None:
        self.trf.remember_log_Z1(float(note["log_Z1"]))

    def fixed_parts(self) -> Mapping[str, Stored]:
        """The reference that it tilts."""
        return {REFERENCE: cast("Stored", self.trf.potential.reference)} if isinstance(self.trf.potential, Tilted) else {}


class FieldModel(Sampled):
    """A trained random field as a language model. log_prob is the mean over its fields (snapshots)."""

    normalised = False
    origin = Origin()
    batch_free = False
    drawn_at_once = 50  # a sentence of a large field takes a second

    def __init__(self, fields: Sequence[TRF], sampler: Sampler) -> None:
        self.fields = list(fields)
        self.sampler = sampler
        self.vocab = self.fields[-1].vocab
        self.engine = Engine(self.fields)

    @property
    def proposal(self) -> Any:
        return self.sampler.proposal

    def to(self, device: str) -> "FieldModel":
        """Move the potentials, which is where the work is. The rest stays on the CPU; so do sampling and estimates of log Z."""
        for field in self.fields:
            moved = field.potential.potential if isinstance(field.potential, Tilted) else field.potential
            assert isinstance(moved, nn.Module)
            log_Z1 = field.log_Z1()
            moved.to(device)
            field.remember_log_Z1(log_Z1)
        return self

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

    def cautions(self, batch: Batch) -> list[str]:
        unseen = int(self.fields[-1].unseen(batch.lengths_B).sum())
        return [
            f"{unseen} sentences have a length that training did not have (it went to {self.fields[-1].max_length} words): "
            "pi is floored, zeta goes on linearly"
        ] * bool(unseen)

    def in_order(self, seed: int = 1) -> Mapping[str, LanguageModel]:
        return {}

    def draw_some(self, n: int, rng: torch.Generator, length: int | None, burn_in: int) -> Batch:
        """Independent sentences of the last field, each from a chain of its own after `burn_in` sweeps."""
        return self.sampler.draw(rng, self.fields[-1], n, length, burn_in)
