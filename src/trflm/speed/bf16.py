"""Products in bf16: numbers of 8 bits and the range of fp32, which some CPUs multiply twice as fast."""

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


@functools.cache
def has_bf16() -> bool:
    """Does this CPU multiply in bf16?"""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@contextmanager
def switched_on(parts: Iterable[object], switch: str) -> Iterator[None]:
    """Within, this attribute of all parts is True; after it, what it was."""
    before = [(part, getattr(part, switch)) for part in parts]
    try:
        for part, _ in before:
            setattr(part, switch, True)
        yield
    finally:
        for part, was in before:
            setattr(part, switch, was)
