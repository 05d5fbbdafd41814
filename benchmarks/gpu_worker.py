"""Processes that do the cases of the device suite: a fault, a hang or a crash costs one case.

A worker (`gpu_stage.py`) says which case it begins, and then what came of it, one line of JSON each.  What breaks a
worker, or takes too long, is what it had begun; a new worker goes on behind that.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START = 60.0  # seconds that a worker may take before its first case, libraries and all
DETAILS = 60.0  # and for saying more about a case that failed

Answer = dict[str, Any]


class Worker:
    """One process; `wrap` is a command that runs it."""

    def __init__(
        self, stage: str, options: argparse.Namespace, names: Sequence[str], wrap: Sequence[str] = (), **more: str
    ) -> None:
        self.launched = tempfile.NamedTemporaryFile("r")  # noqa: SIM115  (the kernel started last)
        command = [*wrap, sys.executable, str(Path(__file__).with_name("gpu_stage.py")), stage, options.device]
        environment = {
            **os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONPATH": _path(),
            "FUTAD_SUITE_LAUNCHED": self.launched.name, **more,
        }  # fmt: skip
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )
        # Lines come through a thread: a pipe that has no more to read may have lines that were read already.
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()
        assert self.process.stdin is not None
        told = {k: v for k, v in vars(options).items() if isinstance(v, (str, int, float, bool, list, type(None)))}
        try:
            self.process.stdin.write(json.dumps({"options": told, "names": list(names)}) + "\n")
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # its end says why

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def read(self, seconds: float) -> Answer:
        """The next line, or {"failed": ...} if there is none in that time or any more."""
        try:
            line = self.lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return {"failed": f"no answer within {seconds:.0f} s{self.where()}", "late": True}
        if line:
            made: Answer = json.loads(line)
            return made
        self.process.wait()
        return {"failed": f"exit status {self.process.returncode}{self.where()}{self.tail()}"}

    def where(self) -> str:
        """Which kernel was started last."""
        name = self.launched.read().strip() if self.launched.seek(0) == 0 else ""
        return f"; the kernel started last is {name}" if name else ""

    def tail(self) -> str:
        self.log.seek(0)
        text = self.log.read()[-1500:].strip()
        return f"\n{text}" if text else ""

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        self.launched.close()


def each(
    stage: str, options: argparse.Namespace, names: Sequence[str], seconds: float, end: float, **more: str
) -> Iterator[Answer]:
    """What came of each case: a dictionary with its name.  A case may take so many seconds; after `end` (of the
    monotonic clock) none begins."""
    left = list(names)
    while left:
        if time.monotonic() >= end:
            yield from ({"name": n, "skipped": "there was no time left"} for n in left)
            return
        worker = Worker(stage, options, left, **more)
        try:
            broken = yield from _served(worker, left, seconds, end)
        finally:
            worker.stop()
        if broken is not None:
            yield broken


def _served(worker: Worker, left: list[str], seconds: float, end: float) -> Iterator[Answer]:
    """The answers of one worker, taken from `left`; returns that of the case that broke it, if one did."""
    begun = False
    while left:
        given, left_over = seconds if begun else START, max(1.0, end - time.monotonic())
        told = worker.read(min(given, left_over))
        if "begin" in told:
            while left and left[0] != told["begin"]:
                left.pop(0)
            begun = True
        elif "name" not in told:
            name = left.pop(0)
            if not begun:  # no case's fault; others would have it as well
                left.clear()
            if told.get("late") and left_over < given:
                return {"name": name, "skipped": "there was no time left"}
            return {"name": name, **told}
        else:
            left.pop(0)
            if "failed" in told:
                told["failed"] += worker.where()
            yield told
            if told.get("lost"):  # the device is of no use to this process any more
                return None
    return None


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
