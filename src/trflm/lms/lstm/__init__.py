"""LSTM language models: scores with shared prefixes, the paper's rescoring strategies, training steps, growth."""

from trflm.lms.lstm.fast_window import FastWindowLoss
from trflm.lms.lstm.grow import grown
from trflm.lms.lstm.model import LARGE, LSTM, MEDIUM, SMALL, LSTMConfig, State
from trflm.lms.lstm.output_loss import SampledSoftmax
from trflm.lms.lstm.strategies import Preserve, Shuffle
from trflm.lms.lstm.train import StepInfo, n_windows, streams, train_step, window, window_loss, windows

__all__ = [
    "LARGE",
    "LSTM",
    "MEDIUM",
    "SMALL",
    "FastWindowLoss",
    "LSTMConfig",
    "Preserve",
    "SampledSoftmax",
    "Shuffle",
    "State",
    "StepInfo",
    "grown",
    "n_windows",
    "streams",
    "train_step",
    "window",
    "window_loss",
    "windows",
]
