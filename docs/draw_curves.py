"""Draw how AugSA + JSA went, as in the paper's figure of NLL and KL: `python docs/draw_curves.py [RUN]`

With RUN, a run of recipes/ptb/neural-trf.toml, its figures are first taken over into docs/results/neural-trf.json; the picture,
docs/neural-trf.png, is made from that file. Figures of a step are means over STEPS of them.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from trflm.files.parse import parse_json

DOCS = Path(__file__).parent
FILE, PICTURE, STEPS = DOCS / "results" / "neural-trf.json", DOCS / "neural-trf.png", 20
OF_STEPS = ("kl", "gradient_norm", "log_q", "move_acceptance")
OF_EPOCHS = ("dev_log_likelihood", "dev_choice", "autocorrelation")
PANELS = {
    "dev_nll": "NLL of dev text, nats a sentence\n(by its own zeta)",
    "dev_choice": "dev choice",
    "kl": "KL(field || proposal), estimated",
    "gradient_norm": "norm of the gradient",
}


def taken_over(run: Path) -> dict[str, Any]:
    """Curves of a run, each a list of (epoch, value)."""
    rows = [parse_json(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    config = parse_json((run / "config.json").read_text(encoding="utf-8"))
    parts = [rows[first : first + STEPS] for first in range(0, len(rows), STEPS)]
    curves = {
        name: [[part[-1]["epoch"], round(statistics.mean(row[name] for row in part), 4)] for part in parts] for name in OF_STEPS
    }
    curves |= {name: [[row["epoch"], round(row[name], 4)] for row in rows if name in row] for name in OF_EPOCHS}
    about = {"steps": rows[-1]["step"], "seconds": rows[-1]["seconds"], "learner": config["recipe"]["learner"]}
    return {**about, "commit": config.get("commit"), "curves": curves}


def draw(found: dict[str, Any]) -> None:
    curves = {**found["curves"], "dev_nll": [[epoch, -value] for epoch, value in found["curves"]["dev_log_likelihood"]]}
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    for panel, (name, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        panel.plot(*zip(*curves[name], strict=True), color="#2f6fde", marker="." if name.startswith("dev") else None)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("epoch", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.3)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        FILE.write_text(json.dumps(taken_over(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
    draw(parse_json(FILE.read_text(encoding="utf-8")))
