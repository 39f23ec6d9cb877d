"""The engine: log_prob of the snapshots of a field, averaged as in the paper (section 5.2), at n-gram speed on a CPU.

What makes it fast lies below it: distinct windows, indexed once (`potentials.cnn.windows`), and their layers
(`potentials.cnn.score`). The engine hands one and the same part of the sentences to every snapshot, so that they share its
index; scores a reference n-gram model once for all of them; gives each thread a snapshot of its own, so that no thread waits
for another within a layer; and shares a fixed room among the word tables the snapshots keep. A potential that is no CNN is
scored by its own `score`.

Shapes: B sentences, F fields.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.language_model import LanguageModel
from trflm.potentials.cnn.network import cnns
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.speed.bf16 import has_bf16
from trflm.speed.devices import device_of
from trflm.speed.threads import on_torch_threads
from trflm.text import Batch
from trflm.text.batch import in_parts

TABLE_BYTES = 1 << 27  # that the word tables of all fields keep between calls, together


class Engine:
    """Scores with one or more fields over one vocabulary."""

    def __init__(self, fields: Sequence[TRF], table_bytes: int = TABLE_BYTES) -> None:
        self.fields = list(fields)
        self.most_bytes = table_bytes // len(self.fields)
        for field in self.fields:
            for cnn in cnns(field):
                cnn.word_table.most_bytes = self.most_bytes

    def use_bf16(self, anyway: bool = False) -> bool:
        """Multiply in bf16 (sums stay in fp32) if this CPU has instructions for it, or `anyway`; says whether it does.

        On real lists log_prob then differs by 0.1 at most, and WER is the same; see docs/performance.md.
        """
        bf16 = anyway or has_bf16()
        for field in self.fields:
            for cnn in cnns(field):
                cnn.score_in_bf16 = bf16
        return bf16

    def log_prob(self, batch: Batch) -> Tensor:
        """[B] the mean over the fields of log p(l, x), float64."""
        return self.log_probs(batch).mean(0)

    def log_probs(self, batch: Batch) -> Tensor:
        """[F, B] log p(l, x) of each field, float64."""
        if not len(batch):
            return torch.zeros(len(self.fields), 0, dtype=torch.float64)
        return torch.cat([self._part(part) for part in in_parts(batch)], 1)

    def _part(self, part: Batch) -> Tensor:
        tilted = {field.potential.reference for field in self.fields if isinstance(field.potential, Tilted)}
        references = {reference: reference.log_prob(part).double() for reference in tilted}
        return torch.stack(on_torch_threads([lambda f=field: self._score(f, part, references) for field in self.fields]))

    def _score(self, field: TRF, part: Batch, references: Mapping[LanguageModel, Tensor]) -> Tensor:
        """`field.log_prob`, the score of its reference given."""
        part = part.to(field.zeta.device)
        with torch.no_grad():
            log_prob_B = field.log_norm(part.lengths_B)
            if isinstance(field.potential, Tilted):
                tilted = field.potential
                log_prob_B += float(tilted.factor) * phi_of(tilted.potential, part)
                log_prob_B += float(tilted.share) * references[tilted.reference]
            else:
                log_prob_B += phi_of(field.potential, part)
        if sum(cnn.word_table.rows.nbytes for cnn in cnns(field)) > self.most_bytes:
            field.potential.forget()
        return log_prob_B


def phi_of(potential: Potential, part: Batch) -> Tensor:
    """[B] computed where the potential is, and back to where the sentences are."""
    return potential.score(part.to(device_of(potential))).to(part.device)
