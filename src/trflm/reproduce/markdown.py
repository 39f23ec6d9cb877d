"""The tables as text."""

from trflm.evaluation.figures import Figures
from trflm.evaluation.second_pass.results import ORACLE
from trflm.evaluation.significance import Comparison
from trflm.reproduce.plan import Paper
from trflm.reproduce.record import CombinedRow, FieldPerplexity, MissingRow, ModelRow, Results


def markdown(results: Results) -> str:
    """Table 2 of the paper, then table 1 if there are strategies to compare."""
    parts = [f"# {results.title}\n"]
    if results.about:
        parts.append(f"{results.about}\n")
    parts.append(table(*main_table(results)))
    strategies = strategy_table(results)
    if strategies[1]:
        parts += ["\nWord error rates of three ways to rescore with an LSTM (table 1 of the paper):\n", table(*strategies)]
    parts.append("\n" + "\n".join(f"- {line}" for line in notes(results)) + "\n")
    return "\n".join(parts)


def main_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """(heading, rows)."""
    in_paper = any(row.paper != Paper() for row in results.rows)
    heading = [
        "model",
        "perplexity",
        "WER %",
        "95 %",
        "against " + (results.baseline or "-"),
        *([f"against {results.rival}"] if results.rival else []),
        "parameters",
        "training",
        "per list",
    ]
    if in_paper:
        heading.append("paper: PPL, WER")
    rows = []
    for name, figures in results.references.items():
        if name != ORACLE:
            rows.append([f"({name})", "", percent(figures), interval(figures)])
    empty = [""] * (len(heading) - 2 - in_paper)
    for row in results.rows:
        cells = [row.label, row.status, *empty] if isinstance(row, MissingRow) else row_cells(row, bool(results.rival))
        rows.append(cells + ([", ".join(filter(None, (row.paper.perplexity, row.paper.wer)))] if in_paper else []))
    oracle = results.references[ORACLE]
    rows.append(["(oracle)", "", percent(oracle), interval(oracle)])
    return heading, [cells + [""] * (len(heading) - len(cells)) for cells in rows]


def row_cells(row: ModelRow | CombinedRow, rival: bool) -> list[str]:
    perplexity, parameters, training = "-", "", ""  # of several models together
    if isinstance(row, ModelRow):
        perplexity, parameters = perplexity_text(row), f"{row.parameters / 1e6:.2f} M"
        training = duration(row.training_seconds) + (", unfinished" if row.unfinished is not None else "")
    return [
        row.label,
        perplexity,
        f"**{percent(row.wer)}**",
        interval(row.wer),
        difference(row.against_baseline),
        *([difference(row.against_rival)] if rival else []),
        parameters,
        training,
        duration(row.rescoring_seconds),
    ]


def strategy_table(results: Results) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in results.models:
        if row.strategies is not None:
            ways = [row.strategies[how] for how in ("preserve", "reset", "shuffle")]
            rates = [f"{percent(figures)} {interval(figures)}" for figures in ways]
            rows.append([row.label, perplexity_text(row), *rates])
    return ["LSTM", "perplexity", "preserve", "reset", "shuffle"], rows


def table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def notes(results: Results) -> list[str]:
    dev, test = results.lists["dev"], results.lists["test"]
    lines = [
        "Scale, word penalty, OOV penalty and interpolation weights are tuned on dev "
        f"({dev.utterances} utterances, {dev.words:,} words) and reported on test "
        f"({test.utterances} utterances, {test.words:,} words, {test.hypotheses:,} hypotheses).",
        "95 %: bootstrap over utterances; differences with the p of a paired bootstrap. "
        "Per list: the time to score the hypotheses of an utterance.",
        "Perplexity: on the test text, ends of sentences counted; of an LSTM that reads the text in order. "
        "A random field has an interval, if time was given for it.",
    ]
    for row in results.rows:
        if isinstance(row, MissingRow):
            lines.append(f"{row.label}: {row.status}: {row.reason}")
        elif isinstance(row, ModelRow) and row.unfinished is not None:
            lines.append(f"{row.label}: training has not reached its end, only {row.unfinished}")
        if isinstance(row, CombinedRow) and row.equal is not None:
            lines.append(f"{row.label}: with equal weights, as in the paper, {percent(row.equal)} {interval(row.equal)}")
        if isinstance(row, ModelRow) and row.seeds is not None:
            rates = [100 * figures.wer for figures in (row.wer, *(run.wer for run in row.seeds.values()))]
            mean = sum(rates) / len(rates)
            lines.append(f"{row.label}: over {len(rates)} seeds {mean:.2f} in the mean, {min(rates):.2f} to {max(rates):.2f}")
        if isinstance(row, ModelRow) and row.perplexity_interval is not None:
            lines.append(perplexity_note(row.label, row.perplexity_interval))
    made = results.made
    lines.append(f"trflm {made.trflm}, commit {made.commit}, seed {results.seed}, torch {made.torch}, {made.machine}.")
    return lines


def perplexity_text(row: ModelRow) -> str:
    if (interval := row.perplexity_interval) is not None:
        return f"{interval.low:.1f} to {interval.high:.1f}"
    if (found := row.perplexity) is None:
        return "-"
    return f"{found.reset if found.preserve is None else found.preserve:.1f}"


def perplexity_note(label: str, found: FieldPerplexity) -> str:
    """What an interval rests on."""
    return (
        f"{label}: perplexity at least {found.low:.1f} (proven, but for a chance of 5 %), at most {found.high:.1f} "
        f"(a diagnostic: samples after {found.burn_in} sweeps), {found.own:.1f} by its own zeta; {found.how}; "
        f"{found.rounds} rounds, {found.minutes:.1f} minutes"
    )


def percent(figures: Figures) -> str:
    return f"{100 * figures.wer:.2f}"


def interval(figures: Figures) -> str:
    return f"[{100 * figures.interval.low:.1f}, {100 * figures.interval.high:.1f}]"


def difference(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    p = comparison.p_bootstrap
    if p is None:
        return f"{100 * comparison.difference:+.2f} (too few utterances for a test)"
    return f"{100 * comparison.difference:+.2f} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


def duration(seconds: float | None) -> str:
    """3 digits with a unit a person reads."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
