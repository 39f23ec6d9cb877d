"""Where models compute: the CPU, or a GPU that torch knows by name (cuda, cuda:1, mps).

A potential or an LSTM lies on the device, and what is compiled for the CPU has torch operations beside it that are used there
(`compiled.usable`). Scores come back to the CPU: pi, zeta and log Z are numbers of float64, which mps does not have.
"""

import torch
from torch import Tensor, nn

from trflm.errors import InputError


def check_device(device: str, key: str) -> None:
    """That torch can use it; `key` is what the user named it by."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{key} = {device!r}: cannot be used: {reason}; give cpu, or a device torch has") from error


def device_of(module: object) -> torch.device:
    """Where the parameters of a module are."""
    first: Tensor | None = next(iter(module.parameters()), None) if isinstance(module, nn.Module) else None
    return torch.device("cpu") if first is None else first.device
