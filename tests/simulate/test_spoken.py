"""Written English as it is said."""

import pytest

from trflm.simulate.spoken import say_number, sentences, spoken


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("0", "zero"),
        ("17", "seventeen"),
        ("42", "forty two"),
        ("1984", "nineteen eighty four"),
        ("1905", "nineteen oh five"),
        ("1900", "nineteen hundred"),
        ("2000", "two thousand"),
        ("2009", "two thousand nine"),
        ("1,984", "one thousand nine hundred eighty four"),
        ("3.14", "three point one four"),
        ("2nd", "second"),
        ("20th", "twentieth"),
        ("1990s", "nineteen nineties"),
        ("1,000,000", "one million"),
    ],
)
def test_numbers(written: str, said: str) -> None:
    assert " ".join(say_number(written) or []) == said


def test_a_sentence() -> None:
    assert spoken('In 1971, he said: "It isn\'t 50% done."') == (
        ["in", "nineteen", "seventy", "one", "he", "said", "it", "isn't", "fifty", "percent", "done"]
    )
    assert spoken("The area is x² + 1.") is None
    assert spoken("Étienne wrote it.") is None
    assert spoken("A well-known (small) town.") == ["a", "well", "known", "small", "town"]


def test_sentences_end_at_full_stops_but_not_at_abbreviations() -> None:
    text = 'He met Dr. Brown in 1990. "Was it J. Smith?" she asked. It was not e.g. Brown. Yes!'
    assert list(sentences(text)) == [
        "He met Dr. Brown in 1990.",
        '"Was it J. Smith?" she asked.',
        "It was not e.g. Brown.",
        "Yes!",
    ]
