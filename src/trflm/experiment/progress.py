"""What a person sees while training: a live line on a terminal, a plain line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Protocol

from trflm.learning.loop import Metrics, Moment


class Progress(Protocol):
    def update(self, moment: Moment) -> None: ...
    def say(self, message: str) -> None: ...
    def __enter__(self) -> "Progress": ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def shown(metrics: Metrics) -> str:
    """The metrics on one line, without the criterion: it repeats one of them."""
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items() if name != "criterion")


def clock(seconds: float) -> str:
    """1:02:03."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


class Rate:
    """Steps a second and the time left, from the last minute or so (an exponential average)."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.seconds_a_step = 0.0
        self.steps = 0

    def tick(self) -> None:
        now = time.monotonic()
        self.steps += 1
        keep = max(0.98, 1 - 1 / self.steps) if self.steps > 50 else 1 - 1 / self.steps
        self.seconds_a_step = keep * self.seconds_a_step + (1 - keep) * (now - self.last)
        self.last = now

    def describe(self, moment: Moment) -> str:
        rate = 1 / max(self.seconds_a_step, 1e-9)
        return f"{rate:.3g} steps/s  {clock((moment.steps - moment.step) * self.seconds_a_step)} left"


class Lines:
    """Plain lines to standard error, at most one in `every` seconds, and every dev result."""

    def __init__(self, every: float = 10.0) -> None:
        self.every, self.rate, self.next_line = every, Rate(), 0.0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass

    def update(self, moment: Moment) -> None:
        self.rate.tick()
        if moment.dev is not None or time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + self.every
            metrics = shown({**moment.metrics, **(moment.dev or {})})
            self.say(f"step {moment.step}/{moment.steps}  epoch {moment.epoch:.2f}  {self.rate.describe(moment)}  {metrics}")

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)


class Quiet(Lines):
    """Nothing but what went wrong, which the command line prints itself."""

    def update(self, moment: Moment) -> None:
        pass

    def say(self, message: str) -> None:
        pass


class Bar:
    """A live bar on a terminal; dev results stay above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.rate = Rate()
        columns = (TextColumn("epoch {task.fields[epoch]:.2f}"), BarColumn(bar_width=24), TextColumn("{task.fields[note]}"))
        self.bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=None, epoch=0.0, note="")

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.bar.stop()

    def update(self, moment: Moment) -> None:
        self.rate.tick()
        note = f"{self.rate.describe(moment)}  {shown(moment.metrics)}"
        self.bar.update(self.task, completed=moment.step, total=moment.steps, epoch=moment.epoch, note=note)
        if moment.dev is not None:
            self.say(f"epoch {moment.epoch:.0f}  {shown(moment.metrics)}  {shown(moment.dev)}")

    def say(self, message: str) -> None:
        self.bar.console.print(message, markup=False, highlight=False)


def progress(quiet: bool) -> Progress:
    if quiet:
        return Quiet()
    return Bar() if sys.stderr.isatty() else Lines()
