"""The tables as text."""

from typing import Any


def markdown(results: dict[str, Any]) -> str:
    """Table 2 of the paper, then table 1 if there are strategies to compare."""
    parts = [f"# {results['title']}\n"]
    if results["about"]:
        parts.append(f"{results['about']}\n")
    parts.append(table(*main_table(results)))
    strategies = strategy_table(results)
    if strategies[1]:
        parts += ["\nWord error rates of three ways to rescore with an LSTM (table 1 of the paper):\n", table(*strategies)]
    parts.append("\n" + "\n".join(f"- {line}" for line in notes(results)) + "\n")
    return "\n".join(parts)


def main_table(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(heading, rows)."""
    in_paper = any(any(row["paper"].values()) for row in results["rows"])
    heading = [
        "model",
        "perplexity",
        "WER %",
        "95 %",
        "against " + (results["baseline"] or "-"),
        "parameters",
        "training",
        "per list",
    ]
    if in_paper:
        heading.append("paper: PPL, WER")
    rows = []
    for name, figure in results["references"].items():
        if name != "oracle":
            rows.append([f"({name})", "", percent(figure), interval(figure), "", "", "", ""])
    for row in results["rows"]:
        if row["status"] != "done":
            cells = [row["label"], row["status"], "", "", "", "", "", ""]
        else:
            cells = [
                row["label"],
                perplexity_text(row),
                f"**{percent(row['wer'])}**",
                interval(row["wer"]),
                difference(row.get("against_baseline")),
                millions(row.get("parameters")),
                duration(row.get("training_seconds")) + (", unfinished" if "unfinished" in row else ""),
                duration(row.get("rescoring_seconds")),
            ]
        rows.append(cells + ([", ".join(filter(None, (row["paper"]["perplexity"], row["paper"]["wer"])))] if in_paper else []))
    oracle = results["references"]["oracle"]
    rows.append(["(oracle)", "", percent(oracle), interval(oracle), "", "", "", ""])
    return heading, [cells + [""] * (len(heading) - len(cells)) for cells in rows]


def strategy_table(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in results["rows"]:
        if "strategies" in row:
            rates = [
                f"{percent(row['strategies'][how])} {interval(row['strategies'][how])}"
                for how in ("preserve", "reset", "shuffle")
            ]
            rows.append([row["label"], perplexity_text(row), *rates])
    return ["LSTM", "perplexity", "preserve", "reset", "shuffle"], rows


def table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def notes(results: dict[str, Any]) -> list[str]:
    dev, test = results["lists"]["dev"], results["lists"]["test"]
    lines = [
        "Scale, word penalty, OOV penalty and interpolation weights are tuned on dev "
        f"({dev['utterances']} utterances, {dev['words']:,} words) and reported on test "
        f"({test['utterances']} utterances, {test['words']:,} words, {test['hypotheses']:,} hypotheses).",
        "95 %: bootstrap over utterances; differences with the p of a paired bootstrap. "
        "Per list: the time to score the hypotheses of an utterance.",
        "Perplexity: on the test text, ends of sentences counted; of an LSTM that reads the text in order. "
        "A random field's needs an interval and is not measured here.",
    ]
    for row in results["rows"]:
        if row["status"] != "done":
            lines.append(f"{row['label']}: {row['status']}: {row['reason']}")
        if "unfinished" in row:
            lines.append(f"{row['label']}: training has not reached its end, only {row['unfinished']}")
    lines += [perplexity_note(row) for row in results["rows"] if "low" in (row.get("perplexity") or {})]
    made = results["made"]
    lines.append(
        f"trflm {made['trflm']}, commit {made['commit']}, seed {results['seed']}, torch {made['torch']}, {made['machine']}."
    )
    return lines


def perplexity_text(row: dict[str, Any]) -> str:
    found = row.get("perplexity")
    if not found:
        return "-"
    if "low" in found:
        return f"{found['low']:.1f} to {found['high']:.1f}"
    return f"{found.get('preserve', found['reset']):.1f}"


def perplexity_note(row: dict[str, Any]) -> str:
    """What an interval rests on."""
    found = row["perplexity"]
    return (
        f"{row['label']}: perplexity at least {found['low']:.1f} (proven, but for a chance of 5 %), "
        f"at most {found['high']:.1f} (a diagnostic: samples after {found['burn_in']} sweeps), "
        f"{found['own']:.1f} by its own zeta; {found['how']}; {found['rounds']} rounds, {found['minutes']:.1f} minutes"
    )


def percent(figure: dict[str, Any]) -> str:
    return f"{100 * figure['wer']:.2f}"


def interval(figure: dict[str, Any]) -> str:
    return f"[{100 * figure['interval']['low']:.1f}, {100 * figure['interval']['high']:.1f}]"


def difference(comparison: dict[str, Any] | None) -> str:
    if comparison is None:
        return ""
    p = comparison["p_bootstrap"]
    return f"{100 * comparison['difference']:+.2f} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


def millions(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.2f} M"


def duration(seconds: float | None) -> str:
    """3 digits with a unit a person reads."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
