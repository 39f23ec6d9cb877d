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


def layered(seed: int) -> Lattice:
    """Hundreds of arcs whose strings cannot all be written out: 12 layers of 6 nodes, few words, arcs without words too."""
    rng = random.Random(seed)
    arcs = [
        Arc(
            6 * layer + a, 6 * (layer + ahead) + b, rng.choice(["a", "b", "c", "d", ""]), rng.uniform(-9, 0), rng.uniform(-5, 0)
        )
        for layer in range(12)
        for a in range(6)
        for ahead in (1, 2)
        for b in rng.sample(range(6), 3)
    ]
    return Lattice("u", arcs, 0, {72 + k: (-0.1 * k, -0.2) for k in range(12)})


@pytest.mark.parametrize("seed", range(4))
def test_against_kaldifst(seed: int) -> None:
    """Its determinised lattice, which has each string once, and the n shortest paths of that.

    It takes weights that differ by 1/1024 for one.
    """
    kaldifst = pytest.importorskip("kaldifst")
    lattice, scale, penalty, n = layered(seed), 0.7, -0.3, 300
    fst = kaldifst.StdVectorFst()
    for _ in range(84):
        fst.add_state()
    fst.start = lattice.start
    for arc in lattice.arcs:
        label = ord(arc.word) if arc.word else 0
        cost = -(arc.acoustic + scale * arc.lm + (penalty if arc.word else 0))
        fst.add_arc(arc.start, kaldifst.StdArc(label, label, cost, arc.end))
    for node, (acoustic, lm) in lattice.finals.items():
        fst.set_final(node, -(acoustic + scale * lm))
    kaldifst.connect(fst)
    kaldifst.rmepsilon(fst)
    paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(kaldifst.determinize(fst), n))
    expected = {}
    for path in paths:
        _, labels, _, cost = kaldifst.get_linear_symbol_sequence(path)
        expected[tuple(map(chr, labels))] = -cost.value
    found = {s.words: s.acoustic + scale * s.lm + penalty * len(s.words) for s in nbest(lattice, n, scale, penalty)}
    assert len(found) == len(expected) == n
    assert list(found.values()) == pytest.approx(sorted(expected.values(), reverse=True), abs=4e-3)
    for words in found.keys() & expected.keys():
        assert found[words] == pytest.approx(expected[words], abs=4e-3)
    last = min(found.values())
    for words in found.keys() ^ expected.keys():  # equal but for rounding at the end of the list
        assert found.get(words, expected.get(words)) == pytest.approx(last, abs=4e-3)


@pytest.mark.parametrize("seed", range(3))
def test_fewer_strings_are_the_first_of_more(seed: int) -> None:
    """What is left out below the n-th best score is never one of the n best."""
    every = list(nbest(layered(seed), 500, 0.7, -0.3))
    for n in (1, 2, 17, 120):
        assert list(nbest(layered(seed), n, 0.7, -0.3)) == every[:n]


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
    (tmp_path / "lattice.txt").write_text(f"u1\n0 {'9' * 5000} it 1,2,\n\n")
    with pytest.raises(InputError, match=r"lattice\.txt:2: '9{60}' is not the number of a node"):
        list(read_lattices(tmp_path / "lattice.txt"))
    for was, now, message in [
        ("base=10", "base=0", "x:2: base=0: these scores are no logs"),
        ("base=10", "base=ten", "x:2: the score 'ten'"),
        ("VERSION=1.0", "start=x", "x:1: 'x' is not the number of a node"),
        ("J=2 S=1 E=3", "J=2 S=1", "x:11: '' is not the number of a node"),
    ]:
        (tmp_path / "x").write_text(SLF.replace(was, now))
        with pytest.raises(InputError, match=message):
            list(read_lattices(tmp_path / "x"))


def test_arcs_may_be_written_in_any_way(tmp_path: Path) -> None:
    """The pattern of the first arc reads the others fast; what does not fit it is read all the same."""
    ways = ["J=2 E=3 S=1 a=-1", "J=2\tS=1\tE=3\ta=-1.0 l=0", "J=2  START=1 END=3 a=-10e-1 ", " J=2 S=1 E=3 a=-1 v=0"]
    (tmp_path / "x").write_text(SLF)
    expected = list(nbest(next(read_lattices(tmp_path / "x")), 5))
    for way in ways:
        (tmp_path / "x").write_text(SLF.replace("J=2 S=1 E=3 a=-1", way))
        assert list(nbest(next(read_lattices(tmp_path / "x")), 5)) == expected
    with_words = SLF.replace("J=1 S=1 E=2 a=-2", "J=1 S=1 E=2 a=-2 W=rise(2)")
    (tmp_path / "x").write_text(with_words)
    assert [s.words for s in nbest(next(read_lattices(tmp_path / "x")), 5)] == [("it", "rise"), ("it", "rows")]
