"""What `trf report` shows is what the files say, drawn in the look of the page of `trf serve`, and words are never markup."""

import html
import json
import re
from pathlib import Path

import pytest
from browser import browser  # noqa: F401  a fixture
from commands import trf
from deploy.tiny_models import model, some_lists

from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.formats import write_jsonl
from trflm.evaluation.nbest import NBestList
from trflm.look import words
from trflm.look.charts import line_chart, log_ticks, ticks
from trflm.report.training import Run

DRAW = Path(words.__file__).parents[1] / "serve/static/draw.js"


def report(*arguments: object) -> str:
    done = trf("report", *arguments)
    assert done.returncode == 0, done.stderr
    page = Path(done.stdout.strip()).read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<script|https?:|@import|url\(", page)  # one file, nothing fetched
    return page


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page.partition("</style>")[2]))


def test_a_run_tells_its_criterion_best_epoch_time_and_samples(tmp_path: Path):
    run = Run.read(model("cnn"))
    page = report(run.path, "--out", tmp_path / "page.html", "--samples", 2)
    said = text_of(page)
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    best = max((row for row in rows if "criterion" in row), key=lambda row: row["criterion"])
    assert run.criterion == "dev_choice"
    assert "The criterion is the dev choice. Mean log probability" in said
    assert f"best epoch {best['epoch']:.4g} criterion {best['criterion']:.4g} " in " ".join(said.split())
    assert [epoch for epoch, _ in run.epoch_seconds] == [1, 2]
    assert sum(seconds for _, seconds in run.epoch_seconds) == pytest.approx(rows[-1]["seconds"], abs=1e-6)
    assert page.count(">epoch</text>") == page.count('<svg viewBox="0 0 430') >= 6  # every chart names its axes
    drawn = trf("sample", run.path, "-n", 2).stdout.splitlines()
    assert all(html.escape(sentence) in page for sentence in drawn)


def test_an_ngram_run_has_figures_and_no_empty_charts(tmp_path: Path):
    page = report(model("ngram"), "--out", tmp_path / "page.html")
    assert "<svg" not in page
    perplexity = json.loads((model("ngram") / "metrics.jsonl").read_text())["dev_perplexity"]
    assert re.search(rf"dev perplexity\s+{perplexity:.2f}", text_of(page))
    assert "What it says" in page


def test_runs_side_by_side_say_what_differs(tmp_path: Path):
    page = report(model("cnn"), model("blstm"), model("ngram"), "--out", tmp_path / "page.html", "--samples", 0)
    assert re.search(r"recipe.learner.kind\s+nce\s+word-nce", text_of(page))
    assert "recipe.data.min_count" not in page  # the same in all
    shared = page.partition("<figcaption>dev choice by epoch")[2].partition("</figure>")[0]
    assert shared.count("<polyline") == 2
    assert all(f"</svg>{name}</li>" in shared for name in ("cnn", "blstm"))
    assert "<figcaption>loss" not in page  # of two kinds of learner: not one quantity
    (tmp_path / "again").symlink_to(model("cnn"))
    assert "<figcaption>loss of nce" in report(
        model("cnn"), tmp_path / "again", "--out", tmp_path / "page.html", "--samples", 0
    )
    assert trf("report", model("cnn"), model("blstm")).returncode == 2  # where to?


def test_a_rescoring_directory_tells_what_changed_and_why(tmp_path: Path):
    lists = [
        NBestList(one.utterance, [text.replace("dog", "<b>dog</b>") for text in one.texts], one.scores, one.texts[1])
        for one in some_lists(30)
    ]
    write_jsonl(lists, tmp_path / "lists.jsonl")
    Rescorer({model("ngram"): 3.0}, oov_penalty=1.0).save(tmp_path / "rescorer")
    given = ["--rescorer", tmp_path / "rescorer", "--nbest", tmp_path / "lists.jsonl", "--quiet"]
    assert trf("rescore", *given, "--out", tmp_path / "out").returncode == 0
    found = json.loads((tmp_path / "out/result.json").read_text())
    page = report(tmp_path / "out")
    said = text_of(page)
    for name in ("first in the lists", "rescored", "oracle"):
        assert re.search(rf"{name}\s+{100 * found['wer'][name]['wer']:.2f} %", said)
    better = sum(change["errors_a"] > change["errors_b"] for change in found["changed"])
    worse = sum(change["errors_a"] < change["errors_b"] for change in found["changed"])
    assert min(better, worse) > 0
    assert f"In {len(found['changed'])} of 30 utterances" in said
    assert f"{better} have fewer errors, {worse} more" in said
    largest = [max(change["score_gains"], key=change["score_gains"].get) for change in found["changed"]]
    assert re.search(rf"ngram\s+{largest.count('ngram')}\s", said.partition("Which terms decided")[2])
    first = found["changed"][0]
    card = page.partition('<details class="card" open>')[2].partition("</details>")[0]
    assert f"{first['errors_a']} → {first['errors_b']} errors" in card
    assert card.count('<li class="wrong">') == first["errors_a"] + first["errors_b"]
    assert f"score {words.signed(sum(first['score_gains'].values()))}" in " ".join(text_of(f"</style>{card}").split())
    assert "&lt;b&gt;dog" in page
    assert "<b>dog" not in page
    without = [NBestList(one.utterance, one.texts, one.scores) for one in lists]
    write_jsonl(without, tmp_path / "lists.jsonl")
    assert trf("rescore", *given, "--out", tmp_path / "silent").returncode == 0
    assert "No references were given" in report(tmp_path / "silent")


def test_scales_fit_what_is_drawn():
    falls = [(float(epoch), 0.1 * 0.5**epoch) for epoch in range(12)]
    assert "learning rate, log scale" in line_chart("lr", {"": falls}, x_name="epoch", y_name="learning rate")
    even = [(x, 1.0 + y) for x, y in falls]
    assert "log scale" not in line_chart("lr", {"": even}, x_name="epoch", y_name="learning rate")
    for value in (0.0, -3.0, 1e-30, 1e299):  # one value, a flat line, the very large
        assert "<svg" in line_chart("x", {"": [(1.0, value), (2.0, value)]}, x_name="x", y_name="y")
    assert line_chart("x", {"": [(1.0, float("nan")), (2.0, float("inf"))]}, x_name="x", y_name="y") == ""
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert all(3 <= len(ticks(0.3, 0.3 + size / 7)) <= 7 for size in range(1, 200))
    assert log_ticks(-3, 0) == pytest.approx([0.001, 0.005, 0.02, 0.1, 0.5])


def test_what_goes_up_and_down_is_smoothed_and_what_falls_is_not():
    falls = [(float(x), 2.0 - 0.01 * x) for x in range(150)]
    noisy = [(x, y + (x % 2)) for x, y in falls]
    assert 'class="curve raw' not in line_chart("x", {"": falls}, x_name="x", y_name="y")
    assert 'class="curve raw' in line_chart("x", {"": noisy}, x_name="x", y_name="y")


def test_a_run_has_one_colour_in_all_charts():
    points = [(1.0, 1.0), (2.0, 3.0)]
    both = line_chart("x", {"one": points, "two": points}, x_name="x", y_name="y")
    alone = line_chart("x", {"one": [], "two": points}, x_name="x", y_name="y")
    key = '<path class="curve s1" d="M0 4H26"/></svg>two</li>'
    assert key in both
    assert key in alone
    assert "one" not in alone


def test_python_and_the_browser_draw_the_same(browser):  # noqa: F811
    """The functions of look/words.py against those of draw.js, element by element."""
    pairs = [("a", "a"), ("b", None), (None, "<i>c</i>"), ("d", 'e"&')]
    names, values, against = ("before", "now"), [-3.02, 0.42, 1.0, -0.01], [-5.0, 0.3, 2.0]
    page = browser.new_context().new_page()
    page.add_script_tag(content=DRAW.read_text().replace("export ", ""))
    made = page.evaluate(
        """([pairs, names, values, against]) => [
            wordLine(["x", "<y>", "z", "w"], values, against), sideBySide(pairs, names, values), sideBySide(pairs, names),
            errorColumns(pairs), gainBar(-2.5, 4), gainBar(1, 4),
            ...Object.entries(termClasses(["cnn", "kn"])).map((of) => el("b", {text: of.join()})),
        ].map((element) => element.outerHTML)""",
        [pairs, names, values, against],
    )
    classes = words.term_classes(["cnn", "kn"])
    gains = re.findall(r'<div class="balance.*?</div>', words.gain_table({"a": -2.5, "b": 1.0, "c": 4.0}, {}))
    drawn = [
        words.word_line(["x", "<y>", "z", "w"], values, against), words.side_by_side(pairs, names, values),
        words.side_by_side(pairs, names), words.error_columns(pairs), *gains[:2],
        *(f"<b>{k},{v}</b>" for k, v in classes.items()),
    ]  # fmt: skip
    assert len(made) == len(drawn)
    same = """([a, b]) => {
        const of = (text) => { const made = document.createElement("template"); made.innerHTML = text; return made.content; };
        return of(a).isEqualNode(of(b));
    }"""
    for one, other in zip(made, drawn, strict=True):
        assert page.evaluate(same, [one, other]), f"{one}\n{other}"
    page.context.close()
