"""Randomness as a function of a seed, a purpose and a number: there is no generator state to save or to lose."""

import numpy as np
import torch

STREAMS = {"order": 1, "step": 2, "init": 3, "dev": 4, "sample": 5, "noise": 6, "perplexity": 7, "window": 8}


def generator(seed: int, stream: str, number: int = 0, *parts: int) -> torch.Generator:
    """An independent source of randomness for one purpose and one number; and of one part of it, a shard or a window."""
    state = np.random.SeedSequence([seed, STREAMS[stream], number, *(p + 1 for p in parts)]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))
