"""Text mapping, step by step and as the Penn Treebank preset."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.text.mapping import (
    PENN_TREEBANK,
    STEPS,
    Clitics,
    Dollars,
    Initials,
    LowerCase,
    Numbers,
    Step,
    Table,
    apply,
    apply_to_all,
    parse_mapping,
)

NUMBERS = Numbers("N", frozenset({"percent", "million"}))
TRICKY = ["a.", "u.", "s.", "one", "ten", "hundred", "point", "and", "percent", "million", "dollars", "didn't", "'", "'s", "x"]
DOLLARS = Dollars("N", frozenset({"million"}))


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (LowerCase(), "The U. S.", "the u. s."),
        (
            Clitics(),
            "didn't can't won't it's we'll they've i'm you're he'd",
            "did n't ca n't wo n't it 's we 'll they 've i 'm you 're he 'd",
        ),
        (Clitics(), "the viewers' opinions of u. s.'s", "the viewers ' opinions of u. s. 's"),
        (Clitics(), "o'clock 'em 's n't ' ''", "o'clock 'em 's n't ' ''"),
        (Initials(frozenset({"u.s."})), "the u. s. and i. b. m.", "the u.s. and ibm"),
        (Initials(frozenset({"u.s."})), "john f. smith met mr. b. of u. s.", "john f. smith met mr. b. of u.s."),
        (NUMBERS, "in nineteen eighty seven five of them rose", "in N of them rose"),
        (NUMBERS, "five companies and ten banks", "five companies and N banks"),
        (NUMBERS, "two point five million", "N million"),
        (NUMBERS, "one hundred and five people and one dog", "N people and one dog"),
        (NUMBERS, "up five percent", "up N percent"),
        (NUMBERS, "the one point he made", "the one point he made"),
        (NUMBERS, "twenty-five of 1,000 at 3.5 and a hundred", "N of N at N and a hundred"),
        (DOLLARS, "paid N million dollars for N dollars", "paid $ N million for $ N"),
        (DOLLARS, "dollars and million dollars a dollar", "dollars and million dollars a dollar"),
        (Table((("and company", "& co."), ("and", "&"))), "you and company and me", "you & co. & me"),
    ],
)
def test_steps(step: Step, before: str, after: str) -> None:
    assert step(before.split()) == after.split()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the company's shares rose sixty percent", "the company 's shares rose N N"),
        ("Goldman Sachs and company didn't comment in the U. S.", "goldman sachs & co. did n't comment in the u.s."),
        ("one hundred twenty five point five million dollars", "$ N million"),
        ("sony corporation's unit fell eight dollars", "sony corp. 's unit fell $ N"),
        ("yields rose to six point one two percent", "yields rose to N N"),
        ("two thirds of b. a. s. f. sales", "two thirds of basf sales"),
    ],
)
def test_penn_treebank(before: str, after: str) -> None:
    assert " ".join(apply(PENN_TREEBANK, before.split())) == after


@given(words=st.lists(st.sampled_from(TRICKY), min_size=1))
@settings(max_examples=200)
def test_no_step_makes_a_sentence_empty_or_changes_its_argument(words: list[str]) -> None:
    given_words = list(words)
    for mapping in STEPS.values():
        assert apply(mapping, words)
    assert words == given_words


@given(st.lists(st.lists(st.sampled_from([*TRICKY, "The", "company", "per", "cent"]), min_size=1, max_size=8), max_size=5))
@settings(max_examples=200)
def test_a_list_is_mapped_as_each_of_its_sentences(sentences: list[list[str]]) -> None:
    """A step that is not asked for each sentence would have had nothing to do: against the steps one by one."""

    def alone(words: list[str]) -> list[str]:
        for step in PENN_TREEBANK:
            words = step(words)
        return words

    assert list(apply_to_all(PENN_TREEBANK, sentences)) == [alone(words) for words in sentences]


def test_mappings_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("gonna\tgoing to\n")
    mapping = parse_mapping(f"table={tmp_path}/t.tsv,lower,clitics")
    assert apply(mapping, ["i'm", "gonna", "GO"]) == ["i", "'m", "going", "to", "go"]
    assert parse_mapping("none") == ()
    with pytest.raises(InputError, match="'uper' is not a step; choose from none, ptb"):
        parse_mapping("lower,uper")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gonna going to\n", "t.tsv:1: .* is not an entry; write"),
        ("a\tb\na\tc\n", "t.tsv:2: 'a' was already on line 1; remove"),
    ],
)
def test_faults_of_a_table(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        Table.from_file(tmp_path / "t.tsv")
    with pytest.raises(InputError, match="has an empty side"):
        Table((("uh", ""),))
