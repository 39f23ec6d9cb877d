"""Products in bf16: numbers of 8 bits and the range of fp32, which some CPUs multiply twice as fast."""

import functools

import torch


@functools.cache
def has_bf16() -> bool:
    """Does this CPU multiply in bf16?"""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
