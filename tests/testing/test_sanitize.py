"""A sample of the programs of `python -m futad.testing.sanitize`, and that each sanitizer finds what it is for."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from futad.backend import c_runtime
from futad.errors import UsageError
from futad.pipeline import compile_program
from futad.runtime import cc
from futad.runtime.textvalues import binary_bytes
from futad.source import compile_text
from futad.target import TARGETS
from futad.testing import sanitize
from futad.testing.sanitize import Call, Finding, Subject, check, main, plan
from tests.support.needs import needs_cc
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

pytestmark = needs_cc

TEXT = """
entry main [n] (xs: [n]f64) (is: [n]i64): (f64, [n]f64) =
  let ys = map f64.sin xs
  let zs = scan (+) 0 (map2 (*) ys xs)
  in (f64.sum zs, loop zs = copy zs for i < n do zs with [is[i]] = zs[is[i]] + ys[i])
entry rev [n] (xs: [n]f64) (is: [n]i64): [n]f64 =
  vjp (\\xs -> f64.product (map2 (\\x i -> x * xs[i]) xs is)) xs 1
entry text [n] (xs: [n]u8) (bs: [n]bool): [n](u8, bool) = map2 (\\x b -> (x + u8.bool b, !b)) xs bs
"""


@pytest.fixture(autouse=True)
def supported(tmp_path: Path) -> None:
    (tmp_path / "tiny.c").write_text("int main(void) { return 0; }\n")
    for flags in sanitize._FLAGS.values():
        command = [*cc.find_compiler().command, *flags, "tiny.c", "-o", "tiny"]
        if subprocess.run(command, cwd=tmp_path, capture_output=True).returncode:
            pytest.skip(f"the C compiler has no {flags[0]}")


def subject(text: str = TEXT) -> Subject:
    import numpy as np

    calls = []
    for n in (0, 1, 70):
        xs, is_ = np.linspace(0.5, 1, n), np.arange(n)[::-1].astype(np.int64)
        calls += [Call(e, binary_bytes(xs) + binary_bytes(is_)) for e in ("main", "rev")]
        calls.append(Call("text", binary_bytes(is_.astype(np.uint8)) + binary_bytes(is_ % 3 == 0)))
    return Subject("sample", compile_text(text, "sample.fut"), calls)


BOTH = [("c", ("address", "undefined")), ("multicore", ("thread",)), ("multicore", ("address", "undefined"))]


@pytest.mark.slow
@pytest.mark.parametrize("backend, sanitizers", BOTH)
def test_nothing_is_found(backend: str, sanitizers: tuple[str, ...]) -> None:
    tried: Counter[str] = Counter()
    found = check(subject(), backend, sanitizers, tried)
    assert [str(f) for f in found] == [] and tried["calls"] == 9
    assert tried["ended with an error of the program"] == 0


TASKS = {
    "arrays": """
def tree (d: i64) (xs: [4]f64): [4]f64 =
  if d == 0 then map f64.sin xs
  else let (a, b) = par (tree (d - 1)) (tree (d - 1)) (map (* 0.9) xs, map2 (*) xs (rotate 1 xs)) in map2 (+) a b
entry value (d: i64) (xs: [4]f64) = tree d xs
entry gradient (d: i64) (xs: [4]f64) = vjp (tree (d - 2)) xs (replicate 4 1)
""",
    "records": """
def pairs (d: i64) (xs: [4]f64) (x: f64): (f64, f64) =
  if d == 0 then (f64.sin x, x * xs[1]) else
  let ((a, b), (c, e)) = par (pairs (d - 1) xs) (\\z -> pairs (d - 1) xs (z * 0.8 + xs[d % 4])) (x * 0.9, x)
  in (f64.tanh (a * c), f64.tanh (b * e + x))
def sum (d: i64) (xs: [4]f64): f64 = let (a, b) = pairs d xs xs[0] in a + b
entry value (d: i64) (xs: [4]f64) = sum d xs
entry gradient (d: i64) (xs: [4]f64) = vjp (sum (d - 2)) xs 1
""",
}


def tasks(name: str) -> Subject:
    """A tree of tasks that is large enough that all threads come."""
    import numpy as np

    data = binary_bytes(np.int64(12)) + binary_bytes(np.array([0.3, 0.5, 0.7, 1.1]))
    core = compile_text(TASKS[name], f"{name}.fut")
    return Subject(name, core, [Call("value", data), Call("gradient", data)])


@pytest.mark.slow
@pytest.mark.parametrize("backend, sanitizers", BOTH)
@pytest.mark.parametrize("name", list(TASKS))
def test_nothing_is_found_in_tasks(name: str, backend: str, sanitizers: tuple[str, ...]) -> None:
    tried: Counter[str] = Counter()
    subject = tasks(name)
    assert [str(f) for f in check(subject, backend, sanitizers, tried)] == [] and tried["calls"] == 2
    assert tried["ended with an error of the program"] == 0
    if name == "records":
        assert "keep(" in str(compile_program(subject.core, target=TARGETS[backend]))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TASKS))
def test_a_task_whose_end_is_not_ordered_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do take tasks of each other in these programs."""
    real = cc.headers()
    right = "__atomic_store_n(&task->done, 1, __ATOMIC_RELEASE)"
    assert real["tasks.h"].count(right) == 1
    text = real["tasks.h"].replace(right, right.replace("RELEASE", "RELAXED"))
    monkeypatch.setattr(cc, "headers", lambda: {**real, "tasks.h": text})
    found = check(tasks(name), "multicore", ("thread",), Counter())
    assert any("data race" in f.report for f in found), [str(f) for f in found]


@pytest.mark.slow
def test_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--programs", str(PROGRAMS / "hello.fut"), "--count", "1", "--seed", "3"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"2 programs, \d+ calls \(c: address, undefined; multicore: thread\): 0 findings", last)
    assert main(["--sanitizer", "thread", "--backend", "c"]) == 2


@pytest.mark.slow
def test_which_is_for_what() -> None:
    assert plan(None, None) == [("c", ("address", "undefined")), ("multicore", ("thread",))]
    assert plan(["thread"], None) == [("multicore", ("thread",))]
    assert plan(["address"], ["multicore"]) == [("multicore", ("address",))]
    with pytest.raises(UsageError):
        plan(["thread"], ["c"])


# For each sanitizer a defect put into what every program has: the backend, the text, what is put in its place, and what
# the report says.
DEFECTS = {
    "address": ("c", "(wanted + 127) / 64 * 64", "(wanted + 64) / 2 / 64 * 64 + 64", "heap-buffer-overflow"),
    "leak": ("c", "i < FUTAD_SLOTS; i++) free(ctx->slots[i].data);", "i < FUTAD_SLOTS; i++) {}", "LeakSanitizer"),
    "undefined": ("c", "all |= from[i];", "all |= from[i] << (int)(32 * count);", "shift exponent"),
    "thread": ("multicore", "__atomic_add_fetch(&j->taken, futad_pool_clock() - start, __ATOMIC_RELAXED)",
               "(j->taken += futad_pool_clock() - start)", "data race"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DEFECTS))
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, right, wrong, said = DEFECTS[name]
    kinds = ("thread",) if name == "thread" else ("address", "undefined")
    module = "THREADS" if name == "thread" else "RUNTIME"
    text = getattr(c_runtime, module)
    assert text.count(right) == 1
    monkeypatch.setattr(f"futad.backend.c_emit.{module}", text.replace(right, wrong))
    found: list[Finding] = check(subject(), backend, kinds, Counter())
    assert any(said in f.report for f in found), [str(f) for f in found]
