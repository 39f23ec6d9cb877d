"""Checks find what was planted, and the oracle is the least of what is there."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from evaluation.nbest_cases import three_lists

from trflm.errors import InputError
from trflm.evaluation.check import check
from trflm.evaluation.formats import read_kaldi, read_lists
from trflm.evaluation.nbest import Kind, NBestList, Report
from trflm.evaluation.oracle import oracle


def test_all_planted_faults_are_collected(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("a-1 x\na-1 y\na-2\na-4 z\nb x\nb-1 x\nb-2 x\nc-1 x\n")
    (tmp_path / "s.txt").write_text("a-1 -1\na-2 -1\na-4 nan\nb-1 -1\nb-2 -1\nd-1 -1\n")
    result = check(
        str(tmp_path / "n.txt"), lambda report: read_kaldi(tmp_path / "n.txt", {"acoustic": tmp_path / "s.txt"}, report)
    )
    assert result.counts == {
        Kind.DUPLICATE: 1,
        Kind.RANK: 1,
        Kind.SYNTAX: 1,
        Kind.SCORE: 4,  # nan, so also missing for a-4; c has none; d is unknown
        Kind.REPEATED: 1,
    }
    assert (result.utterances, result.hypotheses, result.errors) == (2, 4, 7)
    assert any('n.txt:8: utterance "c" has no scores' in str(finding) for finding in result.findings)


def test_a_fault_that_ends_the_reading_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_bytes(b'{"a": {"hyp_1": \xff')
    result = check(str(tmp_path / "n.json"), lambda report: read_lists(tmp_path / "n.json", {}, report=report))
    assert result.counts == {Kind.SYNTAX: 1, Kind.EMPTY: 1}
    assert result.findings[0].where.endswith("n.json:1")


def ordered(sign: float) -> list[NBestList]:
    return [NBestList(f"u{i}", ["a b", "a x", "y x"], {"acoustic": sign * np.array([-1.0, -2, -3])}) for i in range(6)]


@pytest.mark.parametrize("references", [None, {f"u{i}": "a b" for i in range(6)}])
def test_wrong_sign_is_suspected(references: dict[str, str] | None) -> None:
    def read(sign: float, report: Report) -> Iterator[NBestList]:
        return iter(ordered(sign))

    assert check("f", lambda report: read(1, report), references).counts == {}
    result = check("f", lambda report: read(-1, report), references)
    assert result.counts == {Kind.SIGN: 1}
    assert result.errors == 0
    assert "wrong sign suspected" in result.findings[0].message


def test_oracle_by_depth() -> None:
    references = {"a-1": "it rows", "b": "the end", "c": "know it all"}
    result = oracle(three_lists(), references, depths=(1, 2, 5, 10))
    assert result.errors == {1: 1 + 0 + 3, 2: 0 + 0 + 1, 5: 1}
    assert result.rates[2] == 1 / 7
    with pytest.raises(InputError, match='utterance "c" has no reference'):
        oracle(three_lists(), {"a-1": "x", "b": "y"})
    with pytest.raises(InputError, match=r'utterance "z" .* is not in'):
        oracle(three_lists(), {**references, "z": "y"})
