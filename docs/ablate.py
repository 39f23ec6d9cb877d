"""What parts of a recipe are worth, in docs/results/ablations.json, of which `make results` makes two tables.

    python docs/ablate.py DATA ROW=MODEL ...                      the text mapping and the OOV penalty
    python docs/ablate.py DATA --training PART ROW=MODEL ...      models trained as ROW was, but without PART

Tunes each model on the dev lists of DATA (nbest/dev, nbest/wsj92) and reports on wsj92, in the first case once a variant.
ROW is a name in docs/results/ptb.json.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import trflm
from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.nbest import NBest
from trflm.experiment.directory import provenance
from trflm.files.parse import parse_json

FILE = Path(__file__).parent / "results" / "ablations.json"
SAME = "as in the other tables"
VARIANTS: dict[str, dict[str, Any]] = {
    SAME: {"mapping": "ptb"},
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", nargs="+", help="ROW=MODEL")
    parser.add_argument(
        "--training", metavar="PART", help="what the training of these models lacks, and that of their rows has"
    )
    parser.add_argument("--out", type=Path, default=FILE)
    parsed = parser.parse_args()
    dev, test = (read(parsed.data / "nbest" / name) for name in ("dev", "wsj92"))
    record = parse_json(parsed.out.read_text(encoding="utf-8")) if parsed.out.exists() else {"rows": {}, "training": []}
    for row, _, path in (given.partition("=") for given in parsed.models):
        model = trflm.load(path)
        for variant, settings in VARIANTS.items():
            if parsed.training and variant != SAME:
                continue
            rescorer = trflm.tune(*dev, model, **settings)
            found = {"dev": rate(rescorer, *dev), "wsj92": rate(rescorer, *test), "made": provenance()}
            if parsed.training:
                record["training"].append({"row": row, "what": parsed.training, **found})
            else:
                record["rows"].setdefault(row, {})[variant] = found
            print(row, parsed.training or variant, found, flush=True)
            parsed.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
