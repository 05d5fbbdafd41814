"""A progress bar on stderr if it is a terminal, and nothing there otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """(report, step): `report(text)` prints a line on stdout above the bar, `step(name)` ends the part so named."""
    if not sys.stderr.isatty() or total < 2:
        yield (lambda text: print(text, flush=True)), (lambda name: None)
        return
    from rich.console import Console
    from rich.progress import Progress

    # What is printed goes above the bar if both are on the terminal; else it is not the bar's to touch.
    both = sys.stdout.isatty()
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=both) as bar:
        task = bar.add_task(what, total=total)
        yield (lambda text: print(text, flush=True)), (lambda name: bar.update(task, advance=1, description=name))
