"""The n best strings of a lattice are those of all its paths, written out."""

import random
from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.evaluation.lattice import Arc, Lattice, nbest
from trflm.evaluation.lattice_files import read_lattices


def every_string(lattice: Lattice, lm_scale: float, penalty: float) -> list[tuple[float, tuple[str, ...]]]:
    """By enumeration: each distinct string with the best score of its paths, best first."""
    best: dict[tuple[str, ...], float] = {}

    def walk(node: int, words: tuple[str, ...], total: float) -> None:
        if node in lattice.finals:
            end = total + lattice.finals[node][0] + lm_scale * lattice.finals[node][1]
            best[words] = max(best.get(words, -1e9), end)
        for arc in lattice.arcs:
            if arc.start == node:
                more = arc.acoustic + lm_scale * arc.lm + (penalty if arc.word else 0)
                walk(arc.end, (*words, arc.word) if arc.word else words, total + more)

    walk(lattice.start, (), 0.0)
    return sorted(((score, words) for words, score in best.items()), reverse=True)


@pytest.mark.parametrize("seed", range(12))
def test_against_all_paths(seed: int) -> None:
    rng = random.Random(seed)
    arcs = [
        Arc(a, b, rng.choice(["x", "y", "z", ""]), rng.uniform(-5, 0), rng.uniform(-5, 0))
        for a in range(7)
        for b in range(a + 1, 7)
        for _ in range(rng.randint(0, 2))
    ] + [Arc(0, 6, "w", -9.0)]
    lattice = Lattice("u", arcs, 0, {6: (0.0, 0.0), 5: (-1.0, -0.5)})
    expected = every_string(lattice, 0.7, -0.3)
    found = list(nbest(lattice, 10**6, 0.7, -0.3))
    assert len({sentence.words for sentence in found}) == len(found) == len(expected)
    totals = [s.acoustic + 0.7 * s.lm - 0.3 * len(s.words) for s in found]
    assert totals == pytest.approx([score for score, _ in expected])
    assert {s.words for s in found} == {words for _, words in expected}
    assert list(nbest(lattice, 3, 0.7, -0.3)) == found[:3]


SLF = "VERSION=1.0\nbase=10\nN=4 L=4\nI=0 W=!NULL\nI=1 W=it\nI=2 W=rose\nI=3 W=rows(2)\nI=4 W=!SENT_END\n"
SLF += "J=0 S=0 E=1 a=-1 l=-1\nJ=1 S=1 E=2 a=-2\nJ=2 S=1 E=3 a=-1\nJ=3 S=2 E=4 a=0\nJ=4 S=3 E=4 a=-3\n"
KALDI = "u1\n0 1 it 1,2,3_4\n1 2 rose 1,1,\n1 2 <eps> 0,5,\n2 0.5,0,\n\nu2\n0 1 7 0,1,\n1\n"


def test_htk_and_kaldi_files(tmp_path: Path) -> None:
    (tmp_path / "utt7.htk").write_text(SLF)
    (lattice,) = read_lattices(tmp_path / "utt7.htk")
    found = list(nbest(lattice, 5))
    assert lattice.utterance == "utt7"
    assert [s.words for s in found] == [("it", "rose"), ("it", "rows")]
    assert found[0].acoustic == pytest.approx(-3 * 2.302585)
    (tmp_path / "k").write_text(KALDI)
    one, two = read_lattices(tmp_path / "k", {"7": "seven"})
    assert [(s.words, s.acoustic, s.lm) for s in nbest(one, 5)] == [(("it", "rose"), -3.0, -2.5), (("it",), -7.0, -1.5)]
    assert [s.words for s in nbest(two, 5)] == [("seven",)]


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lies on a circle"):
        list(nbest(Lattice("u", [Arc(0, 1, "a"), Arc(1, 0, "b")], 0, {1: (0, 0)}), 2))
    with pytest.raises(InputError, match="no path leads"):
        list(nbest(Lattice("u", [Arc(0, 1, "a")], 0, {5: (0, 0)}), 2))
    (tmp_path / "x").write_text(SLF.replace("a=-2", "a=nan"))
    with pytest.raises(InputError, match="x:10: the score 'nan' is not a finite number"):
        list(read_lattices(tmp_path / "x"))
