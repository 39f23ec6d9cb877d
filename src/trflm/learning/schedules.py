"""When to learn less, and when to stop."""


def falling(decay: float, constant_epochs: int, epoch: int) -> float:
    """The factor of the learning rate in epoch 0, 1, 2, ...: decay^max(epoch + 1 - constant_epochs, 0)."""
    return decay ** max(epoch + 1 - constant_epochs, 0)


def stopped_rising(history: list[float], window: int, gain: float) -> bool:
    """Whether the mean of the last `window` values is no more than `gain` above the mean of the `window` before.

    The paper stops "once the smoothed log-likelihood (moving average of 1000 iterations) does not increase
    significantly"; history holds one value an epoch.
    """
    if window < 1 or len(history) < 2 * window:
        return False
    last, before = history[-window:], history[-2 * window : -window]
    return sum(last) / window <= sum(before) / window + gain
