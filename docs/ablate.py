"""What the text mapping and the OOV penalty are worth: `python docs/ablate.py DATA ROW=MODEL ... [--out FILE]`

Tunes each model on the dev lists of DATA (nbest/dev, nbest/wsj92) and reports on wsj92, once for each variant. ROW is its name
in docs/results/ptb.json. `make results` makes a table of the file.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import trflm
from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.nbest import NBest
from trflm.experiment.directory import provenance

FILE = Path(__file__).parent / "results" / "ablations.json"
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the other tables": {"mapping": "ptb"},
    "words as the recogniser writes them": {"mapping": "none"},
    "lower case and clitics only": {"mapping": "lower,clitics"},
    "no OOV penalty": {"mapping": "ptb", "oov_penalty": 0.0},
}


def read(folder: Path) -> tuple[NBest, Path]:
    nbest = trflm.read_nbest(folder / "nbest.txt.gz", acoustic=folder / "acscore.txt.gz", acoustic_is_cost=True)
    return nbest, folder / "ref.txt"


def rate(rescorer: Rescorer, nbest: NBest, ref: Path) -> float:
    return trflm.word_errors({scored.nbest.utterance: scored.best for scored in rescorer.rescore(nbest)}, ref).rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", nargs="+", help="ROW=MODEL")
    parser.add_argument("--out", type=Path, default=FILE)
    parsed = parser.parse_args()
    dev, test = (read(parsed.data / "nbest" / name) for name in ("dev", "wsj92"))
    rows: dict[str, dict[str, Any]] = {}
    for row, _, path in (given.partition("=") for given in parsed.models):
        model = trflm.load(path)
        for variant, settings in VARIANTS.items():
            rescorer = trflm.tune(*dev, model, **settings)
            rows.setdefault(row, {})[variant] = {"dev": rate(rescorer, *dev), "wsj92": rate(rescorer, *test)}
            print(row, variant, rows[row][variant], flush=True)
    record = {"about": (__doc__ or "").split("\n")[0], "rows": rows, "made": provenance()}
    parsed.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
