"""GradBench's protocol: a message is a line of JSON, answered by a line of JSON with the same id.

start     {id, kind, eval?, config?}                          -> {id, tool, config}
define    {id, kind, module}                                  -> {id, success, timings?, error?}
evaluate  {id, kind, module, function, input, description?}   -> {id, success, output?, timings?, error?}
analysis  {id, kind, of, valid, error?}                       -> {id}
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, TextIO

from futad import __version__
from futad.api.program import Program, load
from futad.errors import Error, UsageError
from futad.gradbench import modules


class Tool:
    """Answers messages; programs are compiled once and kept."""

    def __init__(self, backend: str = "auto") -> None:
        self.backend = backend
        self.programs: dict[str, Program] = {}

    def serve(self, lines: Iterable[str], out: TextIO) -> None:
        """Answer every line that is not blank, until there are no more."""
        for line in lines:
            if line.strip():
                print(self.answer(line), file=out, flush=True)

    def answer(self, line: str) -> str:
        """The response to one message; whatever goes wrong is told in it."""
        id: Any = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise UsageError("a message must be a JSON object")
            id = message.get("id")
            response = self.respond(message)
        except json.JSONDecodeError as e:
            response = _failure(f"the message is not JSON: {e}")
        except (Error, MemoryError, RecursionError) as e:
            response = _failure(str(e) or type(e).__name__)
        except Exception as e:
            response = _failure(f"internal error: {type(e).__name__}: {e}")
        try:
            return json.dumps({"id": id} | response, allow_nan=False)
        except ValueError:
            failure = _failure("the result holds a number that is not finite, which JSON has no word for")
            return json.dumps({"id": id} | failure)

    def respond(self, message: dict[str, Any]) -> dict[str, Any]:
        """The response's fields other than the id.  Raises what hinders it."""
        kind = message.get("kind")
        if kind == "start":
            return {"tool": "futad", "config": {"version": __version__, "backend": self.backend}}
        if kind == "define":
            start = time.perf_counter_ns()
            self.program(_text(message, "module"))
            return {"success": True, "timings": [_timing("compile", time.perf_counter_ns() - start)]}
        if kind == "evaluate":
            return self.evaluate(_text(message, "module"), _text(message, "function"), message.get("input"))
        # Other kinds (analysis is one) are only acknowledged.
        return {}

    def program(self, name: str) -> Program:
        """The compiled program of a module.  Raises UsageError and the compiler's errors."""
        file = modules.module(name).path()
        if name not in self.programs:
            program = load(file, backend=self.backend)
            program.executor()
            self.programs[name] = program
        return self.programs[name]

    def evaluate(self, module: str, function: str, data: Any) -> dict[str, Any]:
        """Run a function as often as its input asks, `min_runs` times and `min_seconds` long (default 1 run);
        reading the input and making the output are not timed."""
        task = modules.function(module, function)(self.program(module), data)
        least_runs, least_time = _at_least(data, "min_runs", 1), _at_least(data, "min_seconds", 0)
        timings: list[dict[str, Any]] = []
        elapsed = 0
        while not timings or len(timings) < least_runs or elapsed < least_time * 1e9:
            start = time.perf_counter_ns()
            results = task.compute()
            end = time.perf_counter_ns()
            timings.append(_timing("evaluate", end - start))
            elapsed += end - start
        return {"success": True, "output": task.output(results), "timings": timings}


def _failure(error: str) -> dict[str, Any]:
    return {"success": False, "error": error}


def _timing(name: str, nanoseconds: int) -> dict[str, Any]:
    return {"name": name, "nanoseconds": nanoseconds}


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise UsageError(f"the message has no {name!r}")
    return value


def _at_least(data: Any, name: str, default: float) -> float:
    value = data.get(name, default) if isinstance(data, dict) else default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"field {name!r} is not a number")
    return value
