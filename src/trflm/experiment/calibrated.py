"""A copy of a field's directory in which nothing differs but zeta."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from trflm.errors import InputError
from trflm.experiment.store import load_content, read_config
from trflm.field.snapshots import REFERENCE
from trflm.files.reader import regular
from trflm.files.tensors import save_state
from trflm.text import Vocab


def write_calibrated(model: Path, out: Path, zetas: Sequence[Tensor], how: dict[str, Any]) -> None:
    """`zetas` are those of the model's snapshots, or of the model itself if it has none; the last serves the model file too."""
    vocab, last = Vocab.from_list(regular(model / "vocab.txt")), "model.safetensors"
    names = load_content(model / last, vocab)[1].get("snapshots", [])
    assert len(zetas) == max(len(names), 1)
    files = {last: zetas[-1], **{f"snapshots/{name}": zeta for name, zeta in zip(names, zetas, strict=False)}}
    refuse_existing(out)
    (out / "snapshots").mkdir(parents=True) if names else out.mkdir(parents=True)
    for name in ("vocab.txt", REFERENCE):
        if (model / name).exists():
            shutil.copyfile(model / name, out / name)
    config = {**read_config(model / "config.json"), "calibration": how}
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    for name, zeta in files.items():
        state, note = load_content(model / name, vocab)
        state["trf"]["zeta"] = zeta
        del note["format"]
        save_state(out / name, state, **note)


def refuse_existing(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out}: is there already; give the name of a directory that is not")
