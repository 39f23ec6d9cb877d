"""The 39 phones of the CMU dictionary by articulation, and a distance between them: phones made alike sound alike.

Consonants have a place (0 lips .. 7 glottis), a manner and a voice; vowels go from one position of the tongue to another
(height, backness, rounding; the same twice unless it is a diphthong). Vowels and consonants are further apart than any two
of a kind, except for glides, which are half vowels.
"""

from functools import cache

import numpy as np

# place of articulation, manner, voiced
CONSONANTS: dict[str, tuple[float, str, int]] = {
    "P": (0, "stop", 0),
    "B": (0, "stop", 1),
    "T": (3, "stop", 0),
    "D": (3, "stop", 1),
    "K": (6, "stop", 0),
    "G": (6, "stop", 1),
    "CH": (4, "affricate", 0),
    "JH": (4, "affricate", 1),
    "F": (1, "fricative", 0),
    "V": (1, "fricative", 1),
    "TH": (2, "fricative", 0),
    "DH": (2, "fricative", 1),
    "S": (3, "fricative", 0),
    "Z": (3, "fricative", 1),
    "SH": (4, "fricative", 0),
    "ZH": (4, "fricative", 1),
    "HH": (7, "fricative", 0),
    "M": (0, "nasal", 1),
    "N": (3, "nasal", 1),
    "NG": (6, "nasal", 1),
    "L": (3, "liquid", 1),
    "R": (4, "liquid", 1),
    "W": (0, "glide", 1),
    "Y": (5, "glide", 1),
}
# (height 0 low .. 1 high, backness 0 front .. 1 back, rounding) at the start and at the end
VOWELS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "IY": ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
    "IH": ((0.8, 0.2, 0.0), (0.8, 0.2, 0.0)),
    "EH": ((0.45, 0.15, 0.0), (0.45, 0.15, 0.0)),
    "AE": ((0.15, 0.15, 0.0), (0.15, 0.15, 0.0)),
    "AH": ((0.45, 0.55, 0.0), (0.45, 0.55, 0.0)),
    "ER": ((0.55, 0.5, 0.3), (0.6, 0.5, 0.5)),
    "AA": ((0.0, 0.8, 0.0), (0.0, 0.8, 0.0)),
    "AO": ((0.25, 0.95, 0.6), (0.25, 0.95, 0.6)),
    "UH": ((0.8, 0.8, 0.5), (0.8, 0.8, 0.5)),
    "UW": ((1.0, 0.95, 0.8), (1.0, 0.95, 0.8)),
    "EY": ((0.55, 0.1, 0.0), (0.9, 0.1, 0.0)),
    "AY": ((0.05, 0.6, 0.0), (0.85, 0.15, 0.0)),
    "OY": ((0.3, 0.9, 0.6), (0.85, 0.15, 0.0)),
    "AW": ((0.05, 0.5, 0.0), (0.85, 0.85, 0.6)),
    "OW": ((0.5, 0.8, 0.5), (0.85, 0.9, 0.8)),
}
PHONES: tuple[str, ...] = (*sorted(CONSONANTS), *sorted(VOWELS))
NUMBER: dict[str, int] = {phone: number for number, phone in enumerate(PHONES)}

# How hard it is to take one manner for another; a step of place is worth 0.25, a change of voice 0.5.
MANNERS = ("stop", "affricate", "fricative", "nasal", "liquid", "glide")
MANNER_DISTANCE = np.array(
    [
        [0.0, 0.6, 0.9, 1.1, 1.6, 1.8],
        [0.6, 0.0, 0.5, 1.5, 1.6, 1.8],
        [0.9, 0.5, 0.0, 1.4, 1.3, 1.5],
        [1.1, 1.5, 1.4, 0.0, 0.9, 1.2],
        [1.6, 1.6, 1.3, 0.9, 0.0, 0.6],
        [1.8, 1.8, 1.5, 1.2, 0.6, 0.0],
    ]
)
PLACE, VOICE, TONGUE, APART, GLIDE = 0.25, 0.5, 1.2, 3.5, 1.5


@cache
def distances() -> np.ndarray:
    """[P, P] articulatory distance: symmetric, 0 on the diagonal, positive elsewhere."""
    return np.array([[_distance(a, b) for b in PHONES] for a in PHONES])


def _distance(a: str, b: str) -> float:
    if a in CONSONANTS and b in CONSONANTS:
        (place_a, manner_a, voice_a), (place_b, manner_b, voice_b) = CONSONANTS[a], CONSONANTS[b]
        manner = MANNER_DISTANCE[MANNERS.index(manner_a), MANNERS.index(manner_b)]
        return float(manner + PLACE * abs(place_a - place_b) + VOICE * abs(voice_a - voice_b))
    if a in VOWELS and b in VOWELS:
        return float(TONGUE * sum(np.linalg.norm(np.subtract(x, y)) for x, y in zip(VOWELS[a], VOWELS[b], strict=True)))
    consonant = a if a in CONSONANTS else b
    return GLIDE if CONSONANTS[consonant][1] == "glide" else APART
