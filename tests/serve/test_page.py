"""The page in a real browser, on a real `trf serve`: what it shows is what the Rescorer says."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
from browser import browser, open_page  # noqa: F401  a fixture
from deploy.tiny_models import model

from trflm.deploy.rescorer import Rescorer

TEXTS = ["the emu ran", "the cat sat", "a cat ran", "the <b id=bad>cat</b> ran", "cat the sat"]
ACOUSTIC = [-10.0, -11.0, -10.5, -14.0, -10.2]
LIST = {
    "utterance": "one",
    "reference": "the cat sat",
    "hypotheses": [{"text": t, "scores": {"acoustic": a}} for t, a in zip(TEXTS, ACOUSTIC, strict=True)],
}


@pytest.fixture(scope="module")
def rescorer(tmp_path_factory) -> Rescorer:
    made = Rescorer({model("ngram"): 0.5, model("lstm"): 0.3}, word_penalty=0.2, oov_penalty=3.0)
    made.save(tmp_path_factory.mktemp("serve") / "rescorer")
    return made


@pytest.fixture(scope="module")
def address(rescorer, browser):  # noqa: F811
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'trflm[serve]'")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'trflm[serve]'")
    command = [sys.executable, "-m", "trflm", "serve", str(rescorer.path), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stderr is not None
    line = next((line for line in server.stderr if "serving" in line), "")
    assert " at http://" in line, "the server did not start"
    yield line.split(" at ")[1].strip()
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)


@pytest.fixture
def page(browser, address):  # noqa: F811
    shown, errors = open_page(browser, address, viewport={"width": 420, "height": 800})
    shown.fill("#text", json.dumps(LIST))
    shown.click("#go")
    shown.wait_for_selector("#detail .words")
    yield shown
    assert errors == []
    shown.context.close()


def ranked(page) -> list[int]:
    return [int(button.get_attribute("data-k")) for button in page.query_selector_all("#ranked tbody button")]


def set_slider(page, name: str, value: float) -> None:
    change = """([name, value]) => {
        const slider = document.getElementById(name);
        slider.value = value;
        slider.dispatchEvent(new Event('input'));
    }"""
    page.evaluate(change, [name, value])


def test_it_ranks_as_the_rescorer_does(page, rescorer):
    result = rescorer(TEXTS, acoustic=ACOUSTIC)
    assert ranked(page) == list(result.order)
    shown = [float(cell.inner_text().replace("−", "-")) for cell in page.query_selector_all("#ranked tbody td:nth-child(5)")]
    assert shown == pytest.approx([result.scores[k] for k in result.order], abs=0.006)
    assert result.best in page.inner_text("#said")


def test_sliders_rank_at_once_as_a_rescorer_of_those_weights(page):
    for name, value in (("scale", 0.05), ("share0", 0.9), ("word", 3.0), ("oov0", 0.0), ("oov1", 9.0)):
        set_slider(page, name, value)
    weights = page.evaluate("Array.from(document.querySelectorAll('#weights input'), s => Number(s.value))")
    scale, share, word, oov_ngram, oov_lstm = weights
    assert weights == pytest.approx([0.05, 0.9, 3.0, 0.0, 9.0], abs=1e-9)
    other = Rescorer({model("ngram"): scale * share, model("lstm"): scale * (1 - share)}, word_penalty=word, oov_penalty=0.0)
    plain = other(TEXTS, acoustic=ACOUSTIC)
    penalty = [scale * (share * oov_ngram + (1 - share) * oov_lstm) * ("emu" in text or "<b" in text) for text in TEXTS]
    # the marked-up words are two unknown ones: `<b` and `id=bad>cat</b>`
    expected = [score - p * (2 if "<b" in t else 1) for score, p, t in zip(plain.scores, penalty, TEXTS, strict=True)]
    assert ranked(page) == sorted(range(len(TEXTS)), key=lambda k: -expected[k])
    page.click("#reset")
    assert float(page.input_value("#word")) == 0.2


def test_words_are_text_and_never_markup(page):
    assert page.query_selector("#bad") is None
    assert "<b id=bad>cat</b>" in page.inner_text("#ranked")


def test_keys_reach_everything_and_move_sliders(page):
    page.focus("#scale")
    before = float(page.input_value("#scale"))
    page.keyboard.press("ArrowRight")
    assert float(page.input_value("#scale")) > before
    button = page.query_selector_all("#ranked tbody button")[2]
    chosen = button.get_attribute("data-k")
    button.focus()
    page.keyboard.press("Enter")
    assert page.get_attribute(f"button[data-k='{chosen}']", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.k") == chosen  # focus stays though the table is drawn anew
    assert page.evaluate("[...document.querySelectorAll('input,select,textarea')].every(e => e.labels.length > 0)")


def test_word_errors_and_narrow_screens(page):
    counted = [int(cell.inner_text()) for cell in page.query_selector_all("#ranked tbody td:nth-child(4)")]
    assert counted[ranked(page).index(1)] == 0  # hypothesis 1 is the reference
    assert page.inner_text("#errors dd >> nth=-1") == "0"
    wrong = [item.inner_text().split() for item in page.query_selector_all("#errors .errors >> nth=0 >> .wrong")]
    assert wrong == [["cat", "emu", "S"], ["sat", "ran", "S"]]  # of the first of the list
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


LEGIBLE = """() => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const painted = (colours) => {
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const faint = [];
    for (const element of document.body.querySelectorAll("*")) {
        const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
        if (!own.length || element.closest(".hidden, option, [disabled]") || !element.getClientRects().length) continue;
        const behind = [];
        for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
        const [a, b] = [painted(behind), painted([...behind, getComputedStyle(element).color])].map(light);
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) faint.push(`${element.tagName} ${own[0].data}: ${contrast.toFixed(2)}`);
    }
    return faint;
}"""  # contrast of text with what is painted behind it, as WCAG 2 computes it; what is below its AA


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_modes(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.click("#ranked tbody button >> nth=1")
    page.wait_for_selector("#detail .words")
    assert page.evaluate(LEGIBLE) == []
    page.fill("#text", "this is no list")
    page.click("#go")
    page.wait_for_selector("#problem:not(:empty)")
    assert page.evaluate(LEGIBLE) == []


def test_everything_has_a_name_and_a_place(page):
    """What a screen reader goes by: names of controls, headings without gaps, tables with heads, one main part."""
    controls = re.findall(r"- (button|slider|combobox|textbox|checkbox|img)\b(.*)", page.locator("body").aria_snapshot())
    assert len(controls) > 15
    assert page.get_attribute("#word", "aria-valuetext") == "0.20"
    assert [role for role, rest in controls if not re.match(r' "[^"]+', rest)] == []
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3')].filter(h => h.offsetParent).map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("main").count() == 1
    assert page.locator("table:not(:has(th[scope=col]))").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_long_list_is_shown_in_part_until_all_is_asked_for(page):
    hypotheses = [{"text": f"the cat sat w{k}", "scores": {"acoustic": 0.0}} for k in range(25)]
    page.fill("#text", json.dumps({"utterance": "long", "hypotheses": hypotheses}))
    page.click("#go")
    page.wait_for_selector("#all:has-text('Show all 25')")
    assert len(ranked(page)) == 10
    page.click("#all")
    assert len(ranked(page)) == 25
    height = page.evaluate("document.getElementById('ranked').parentElement.clientHeight")
    assert height <= 0.7 * 800 + 1  # what is told of two of them stays near


def test_what_cannot_be_read_is_said(page):
    page.fill("#text", "this is no list")
    page.click("#go")
    page.wait_for_selector("#problem:not(:empty)")
    assert "nbest" in page.inner_text("#problem")


def test_the_columns_of_an_alignment_are_those_of_python(page):
    from trflm.evaluation.alignment import align
    from trflm.evaluation.layout import pairs

    for said, heard in (("a b c d", "a x c"), ("a b", "b a b c"), ("", "a"), ("a a b", "a b b b"), ("x y z", "")):
        found = page.evaluate(
            "([a, b]) => import('/static/align.js').then(m => m.align(m.wordsOf(a), m.wordsOf(b)))", [said, heard]
        )
        assert [tuple(pair) for pair in found] == pairs(align(said, heard))
