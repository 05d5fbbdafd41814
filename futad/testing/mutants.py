"""Mutants of the compiler, each with one condition of legality dropped, and the programs that find them.

    python -m futad.testing.mutants [--only PATTERN] [--suite] [--seconds S] [--record]

A condition (`futad.legality`) is dropped, a program compiled and run, and the mutant is found if

- a pass makes IR that does not check, or the compiler stops with an internal error, or
- a result differs from what the interpreter makes of the program as it was lowered, after core passes by the
  interpreter, else on `c`, `multicore` or `emulated`, or
- a record is left that nothing has read, or
- checked execution (docs/checking.md) stops at a wrong binding, or
- the compiled program crashes, or does not end.

Programs that do not ask a condition, or of which it holds wherever they do, cannot find it: of these none is run.
The others are tried aimed ones first (tests/legality), then those of tests/programs, then all strings in the tests that
are programs, then random ones; with `--suite` then the tests about the transformation (`suite.py`).
tests/legality/found.txt keeps which program or test found each; it is tried before any other, and `--recorded` (for
continuous integration) tries no other.  `--record` writes that file, and open.txt beside it: the conditions that no
program is known to miss.  `--missing` tries these.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import multiprocessing
import os
import pickle
import re
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from futad import checks, legality
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter, TooLong
from futad.core.types import ArrayType, Const, Prim, elem_of
from futad.errors import BackendError, Error, ExecutionError, InternalError
from futad.target import TARGETS
from futad.testing.blocks import read_test_file
from futad.testing.freeze import BACKENDS, ROOT, digest, programs
from futad.testing.inputs import make_input
from futad.testing.records import FOUND, Outcome, by_number, conditions, record, recorded
from futad.testing.suite import NoTest, failure, found_by_tests, is_test

CORPUS = ("tests/legality", "tests/programs", "tests")
SIZES = ((3, 2, 4, 5), (9, 7, 8, 6), (0, 2, 1, 3), (2, 0, 3, 1), (3, 4, 2, 5), (130, 67, 35, 21))
MOST = 1 << 14  # elements of an argument
REFERENCE = 8  # seconds of processor time after which a program is called no more often
STATEMENTS = 20_000  # of the interpreter, after which a call is left out
PATIENCE = 60  # seconds of processor time after which compiled code is taken not to end; by the clock ten times as many
SHIPPED = "-- at -O3"  # a line of a program that is compiled as for use, in place of -O1
TRIES = 60  # programs that a mutant is tried on
INTERPRETED, RUN, CHECKED = WAYS = ("interpreted", "run", "checked")  # see `examine`

# Of random programs of the source language, which are a function f.
ENTRIES = """
entry primal [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) = f xs ms s
entry rev [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) (b0: t) (b1: [n]t) (b2: [k]t) (b3: t) =
  vjp (\\(xs, ms, s) -> f xs ms s) (xs, ms, s) (b0, b1, b2, b3)
"""

Compiled = dict[str, str]  # by backend: the digest of what is emitted
Call = tuple[str, list[Any]]


@dataclass(slots=True, eq=False)
class Item:
    """A program, with calls of its entries and what they give, or the kind of error; `refused` says which conditions
    said no, how often."""

    name: str
    core: ir.Program
    given: list[Call] = field(default_factory=list)
    calls: list[tuple[Call, list[Any] | type[Error]]] = field(default_factory=list)
    emitted: Compiled = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    sound: dict[tuple[str, str], bool] = field(default_factory=dict)  # by backend, and how: without a mutant


def load(
    paths: Sequence[Path], random: Sequence[int] = (), backends: Sequence[str] = BACKENDS,
    names: Container[str] | None = None,
) -> list[Item]:  # fmt: skip
    """The programs of files and folders, each once, and as many random ones of each kind, compiled without a mutant;
    those of these `names` only."""
    items = []
    seen = set()
    for name, core, given in _every(paths, random):
        name = name.removeprefix(f"{ROOT}/")
        if name in seen or names is not None and name not in names:
            continue
        seen.add(name)
        item = Item(name, core, given)
        every = [c for t in legality.load_all() for c in t.conditions.values()]
        before = {str(c): c.refusals for c in every}
        try:
            for b in backends:
                with suppress(BackendError):  # devices run no recursive functions
                    item.emitted[b] = digest(_emitted(core, b, lambda *_: None))
        except Exception:  # noqa: S112  (what does not compile finds nothing)
            continue
        item.refused = {str(c): c.refusals - before[str(c)] for c in every if c.refusals > before[str(c)]}
        items.append(item)
    return items


def _every(paths: Sequence[Path], random: Sequence[int]) -> Iterator[tuple[str, ir.Program, list[Call]]]:
    from futad.source import compile_text
    from futad.testing.programs.core import program
    from futad.testing.programs.source import source

    for name, core in programs(list(paths)):
        yield name, core, []
    for seed in random:
        sample = program(seed)
        yield f"core program {seed}", sample.program, [("main", sample.args)]
        text, several = source(seed)
        if not several:
            try:
                yield f"source program {seed}", compile_text(text + ENTRIES), []
            except Error:  # a function whose arguments are consumed has no derivative of this kind
                pass
        yield f"skeleton program {seed}", *_skeleton(seed)


def show(name: str) -> int:
    """Print the text of a random program; whether there is none, as an exit code."""
    from futad.testing.programs.core import program
    from futad.testing.programs.source import source

    kind, _, number = name.partition(" program ")
    if not by_number(name):
        print(f"error: {name!r} is no random program", file=sys.stderr)
        return 1
    seed = int(number)
    texts = {"core": lambda: str(program(seed).program), "source": lambda: source(seed)[0] + ENTRIES,
             "skeleton": lambda: _made(seed).text()}  # fmt: skip
    print(texts[kind]())
    return 0


def _made(seed: int) -> Any:
    """A skeleton of the fuzzer with a derivative."""
    from futad.testing.fuzz.cases import KINDS, SOURCE, case, modes_of

    kinds = [k for k in KINDS if k != SOURCE]
    return case(kinds[seed % len(kinds)], seed, "f64", modes_of(Random(f"mutants {seed}"), "f64"))


def _skeleton(seed: int) -> tuple[ir.Program, list[Call]]:
    """A skeleton, and calls of its entries."""
    from futad.api.program import Program
    from futad.source import compile_text
    from futad.testing.fuzz.cases import inputs

    made = _made(seed)
    core = compile_text(made.text())
    entries = Program(core, backend="interp").entries
    calls = []
    for number in range(len(SIZES)):
        given = inputs(made, number)
        for mode in entries:
            f = entries[mode]
            calls.append((f.symbol, list(f.signature.bind(given.given(mode)))))
    return core, calls


def _reference(item: Item) -> None:
    """Calls of the entries, with what the interpreter makes of the program as lowered."""
    from futad.ad.expand import expand
    from futad.ad.inverse.function import expand_inverses
    from futad.optimise.asserts import bind_assertions
    from futad.optimise.inline import inline

    plain = expand(expand_inverses(bind_assertions(inline(item.core))))
    interpreter = Interpreter(plain)
    interpreter.limit = STATEMENTS
    start = time.process_time()
    for name, args in _calls(item):
        if time.process_time() - start > REFERENCE:
            break
        try:
            results = interpreter.run(name, [_copy(a) for a in args])
        except ExecutionError as e:
            item.calls.append(((name, args), type(e)))
        except (Error, TooLong, ValueError, MemoryError):
            continue
        else:
            item.calls.append(((name, args), [_copy(r) for r in results]))


def _calls(item: Item) -> Iterator[Call]:
    """Calls of the entries: those of its test blocks, and of generated values."""
    if item.given:
        yield from item.given
        return
    path = ROOT / item.name
    if path.suffix == ".fut":
        yield from _cases(path)
    rng = np.random.default_rng(0)
    every = list(item.core.funs.values())
    entries = [f for f in every if f.entry is not None] or every
    for k, sizes in enumerate(SIZES):
        for fun in entries:
            args = _arguments(fun, sizes, rng, wild=k == 4)
            if args is not None:
                yield fun.name, args


def _cases(path: Path) -> Iterator[Call]:
    from futad.api.program import load as load_program

    program = load_program(str(path), backend="interp")
    for case in read_test_file(path).cases:
        function = program.entries.get(case.entry)
        if function is not None and case.input.kind in ("values", "random"):
            try:
                yield function.symbol, make_input(program, function, case)
            except Error:
                continue


def _copy(a: Any) -> Any:
    return a.copy() if isinstance(a, np.ndarray) else a


def _arguments(fun: ir.Fun, sizes: Sequence[int], rng: np.random.Generator, wild: bool) -> list[Any] | None:
    """Values for a function's parameters: sizes in turn from `sizes`, integers that are indices of such (or may not be:
    `wild`), floats near 1 (or of either sign, and 0).  None if they are large, or there are none of these sizes."""
    env: dict[Any, Any] = {}
    out: list[Any] = []
    for k, v in enumerate(fun.body.params):
        if k < fun.num_sizes:
            value: Any = np.int64(sizes[k % len(sizes)])
        else:
            shape: tuple[int, ...] = ()
            if isinstance(v.type, ArrayType):
                shape = tuple([int(d.value if isinstance(d, Const) else env[d]) for d in v.type.shape])
            elem = v.type if isinstance(v.type, Prim) else elem_of(v.type)
            assert isinstance(elem, Prim)
            if min(shape, default=0) < 0 or np.prod(shape, dtype=np.int64) > MOST:
                return None
            if elem.is_float:
                value = rng.integers(-2, 3, shape) * 0.75 if wild else rng.uniform(0.3, 1.7, shape)
            elif elem.is_bool:
                value = rng.integers(0, 2, shape)
            elif wild and elem.kind == "int":
                value = rng.integers(-2, max(sizes) + 2, shape)
            else:
                value = rng.integers(0, max(1, min(sizes) if shape else min(sizes) + 1), shape)
            value = np.asarray(value).astype(elem.dtype)
            value = value if shape or isinstance(v.type, ArrayType) else value[()]
        env[v] = value
        out.append(value)
    return out


# -- compiling and running


def _emitted(core: ir.Program, backend: str, look: Callable[[str, ir.Program], None]) -> str:
    """The texts of a backend; `look` sees the program after every pass."""
    return _backend(core, backend, look)[1]


def _backend(core: ir.Program, backend: str, look: Callable[[str, ir.Program], None]) -> tuple[Any, str]:
    from futad.pipeline import Trace, compile_program

    target = replace(TARGETS[backend], threads=1) if backend == "multicore" else TARGETS[backend]
    program = compile_program(core, target=target, trace=Trace(after=look))
    if backend == "emulated":
        from futad.backend.cuda import DeviceBackend

        device = DeviceBackend(program)
        return device, f"{device.source}\n{device.host}"
    from futad.backend.c import CBackend

    made = CBackend(program, target, grain=1)
    return made, made.source


def examine(item: Item, backends: Sequence[str], how: str = RUN) -> str | None:
    """What is wrong with the program as it is compiled now, in words; None if nothing is.

    Where texts are as they are without a mutant nothing is run.  `how`: code is not compiled, but what all passes make
    is interpreted; or it is run; or its execution is checked.
    """
    if not item.calls:
        _reference(item)
    last: list[ir.Program] = []
    stage = ""

    def look(name: str, p: ir.Program) -> None:
        nonlocal stage
        stage = name
        check_program(p, name)
        last[:] = [p]

    for backend in backends:
        stage = "the first pass"
        try:
            made, text = _backend(item.core, backend, look)
        except InternalError as e:
            return f"{_kind(e)} ({backend}): {_first(e)}"
        except Error as e:
            return f"refused after {stage} ({backend}): {_first(e)}"
        except Exception as e:
            return f"internal error after {stage} ({backend}): {type(e).__name__}: {_first(e)}"
        if digest(text) == item.emitted.get(backend):
            continue
        if item.name.endswith(".fut") and SHIPPED in (ROOT / item.name).read_text().splitlines():
            os.environ["FUTAD_CFLAGS"] = "-O3"  # of this child alone
        problem = _differs(item, Interpreter(last[0]), f"the interpreter ({backend})")
        if problem is None and how == RUN:
            problem = _differs(item, made if backend != "emulated" else _on_device(made), backend)
        elif problem is None and how == CHECKED and backend != "emulated":
            with checks.checking(checks.EXECUTION):
                watched, _ = _backend(item.core, backend, look)
            problem = _differs(item, watched, f"{backend}, checked")
        if problem is not None:
            return problem
    return None


def _on_device(made: Any) -> Any:
    from futad.runtime.device import EmulatedDevice

    made.on(EmulatedDevice())
    return made


def _kind(e: InternalError) -> str:
    return "IR check" if str(e).startswith("internal error: after ") or "after " in str(e)[:40] else "internal error"


def _first(e: BaseException) -> str:
    lines = str(e).replace(f"{ROOT}/", "").splitlines() or [""]
    return lines[0][:160]


def _differs(item: Item, executor: Any, backend: str) -> str | None:
    for (name, args), expected in item.calls:
        given = [_copy(a) for a in args]
        try:
            results = executor.run(name, given)
        except InternalError as e:
            return f"internal error on {backend}: {_first(e)}"
        except Error as e:
            if type(e) is expected:
                continue
            return f"failure on {backend}: {name}: {_first(e)}"
        except Exception as e:
            return f"internal error on {backend}: {type(e).__name__}: {_first(e)}"
        if isinstance(expected, type):
            return f"no failure on {backend}: {name}"
        for v, got, was in zip(item.core.funs[name].body.params, given, args, strict=True) if executor.fresh else ():
            if not np.array_equal(got, was, equal_nan=np.asarray(was).dtype.kind == "f"):
                return f"argument '{v.name}' overwritten on {backend}: {name}"
        if isinstance(executor, Interpreter) and executor.records.left:
            return f"records that nothing reads on {backend}: {name}"
        if executor.fresh and _shared(results):
            return f"results share memory on {backend}: {name}"
        for k, (got, want) in enumerate(zip(results, expected, strict=True)):
            if not _equal(np.asarray(got), np.asarray(want)):
                return f"result on {backend}: {name}, value #{k}"
    return None


def _shared(results: Sequence[Any]) -> bool:
    arrays = [r for r in results if isinstance(r, np.ndarray) and r.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def _equal(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    tol = {8: 1e-8, 4: 2e-3, 2: 5e-2}[got.dtype.itemsize]
    return bool(np.allclose(got, want, rtol=tol, atol=tol * _scale(want), equal_nan=True))


def _scale(want: np.ndarray[Any, Any]) -> float:
    finite = np.abs(want[np.isfinite(want)]) if want.size else want
    return max(1e-3, min(1.0, float(finite.max()))) if finite.size else 1.0


def in_child(work: Callable[[], str | None], patience: float = PATIENCE) -> str | None:
    """What `work` gives, done by a process of its own: compiled mutants may crash or not end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            os.setsid()
            faulthandler.disable()  # what crashes is an answer here
            limit = math.ceil(patience)  # each process has its own time: C compilers do not count
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = work()
            with os.fdopen(writer, "wb") as out:
                out.write(pickle.dumps(found))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    data = b""
    deadline = time.monotonic() + 10 * patience
    with os.fdopen(reader, "rb", buffering=0) as source:
        while True:
            ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "does not end"
            piece = source.read(1 << 16)
            if not piece:
                break
            data += piece
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGXCPU:
            return "does not end"
        return f"crash ({signal.Signals(os.WTERMSIG(status)).name})"
    if not data:
        return f"crash (status {os.WEXITSTATUS(status)})"
    found = pickle.loads(data)
    assert found is None or isinstance(found, str)
    return found


# -- mutants


def hunt(condition: str, items: Sequence[Item], deadline: float, first: str = "", suite: bool = False) -> Outcome:
    """Programs tried until one finds the mutant; then tests, of the whole `suite` or `first`."""
    outcome = Outcome(condition)
    start = time.monotonic()
    # The recorded one, then aimed ones (they come first anyway), each kind by how small it is.
    those = [i for i in items if condition in i.refused]
    outcome.asked = len(those)
    if first and not is_test(first) and all(i.name != first for i in those):
        there = any(i.name == first for i in items)
        outcome.stale = "it holds wherever that asks for it" if there else "that is not there, or does not compile"
    those.sort(key=lambda i: (i.name != first, CORPUS[0] not in i.name, _size(i.core)))
    # The recorded one in all ways, however long that takes, before the others.
    known = 1 if those and those[0].name == first else 0
    rounds = [(k, how, part) for part in (those[:known], those[known:TRIES]) for k, how in enumerate(WAYS)]
    for k, how, part in rounds if not is_test(first) else ():
        for item in part:
            if item.name != first and time.monotonic() - start > deadline * (k + 1) / len(WAYS):
                break
            outcome.tried += k == 1
            if not item.calls:
                _reference(item)

            def work(item: Item = item, how: str = how) -> str | None:
                with legality.dropping(condition):
                    return examine(item, tuple(item.emitted), how)

            found = in_child(work)
            if found is not None and _sound(item, how, found):
                outcome.found, outcome.program = found, item.name
                outcome.seconds = time.monotonic() - start
                return outcome
    test = None
    try:
        test = failure([first], condition, deadline) if is_test(first) else None
    except NoTest:
        outcome.stale = "there is no such test"
    test = test or (found_by_tests(condition, deadline) if suite else None)
    if test is not None:
        outcome.program, outcome.found = test
    outcome.seconds = time.monotonic() - start
    return outcome


def _sound(item: Item, how: str, found: str) -> bool:
    """Whether nothing is wrong without a mutant on the backends that `found` names (or on all): otherwise the
    program shows nothing."""
    for backend in [b for b in item.emitted if re.search(rf"\b{b}\b", found)] or item.emitted:
        if (backend, how) not in item.sound:
            plain = Item(item.name, item.core, item.given, item.calls)
            item.sound[backend, how] = in_child(partial(examine, plain, (backend,), how)) is None
        if not item.sound[backend, how]:
            return False
    return True


def _size(core: ir.Program) -> int:
    from futad.pipeline import count_statements

    return count_statements(core)


def items_of(known: dict[str, str], names: Sequence[str]) -> list[Item]:
    """The programs that found these mutants."""
    found = {known[n] for n in names if n in known and not is_test(known[n])}
    return load(sorted({ROOT / p.split(":")[0] for p in found}), names=found)


_items: list[Item] = []


def _job(task: tuple[str, float, str, bool]) -> Outcome:
    condition, deadline, first, suite = task
    return hunt(condition, _items, deadline, first, suite)


def hunt_all(
    conditions: Sequence[str], items: list[Item], seconds: float, jobs: int = 2, suite: bool = False
) -> Iterator[Outcome]:
    """The mutants one after the other, `jobs` at a time; by tests too, of the whole `suite` or those recorded."""
    _items[:] = items
    known = recorded()
    tasks = [(c, seconds, known.get(c, ""), suite) for c in conditions]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(_job, tasks)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m futad.testing.mutants", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="conditions of which this is a part, or that match"
    )
    parser.add_argument("--seconds", type=float, default=120, help="how long to try for each mutant")
    parser.add_argument("--random", type=int, default=200, metavar="N", help="random programs of each kind, at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--recorded", action="store_true", help="only the programs that found mutants before")
    parser.add_argument("--suite", action="store_true", help="also the tests about the transformation")
    parser.add_argument("--record", action="store_true", help=f"write {FOUND.relative_to(ROOT)}")
    parser.add_argument("--missing", action="store_true", help="only conditions that nothing was known to find")
    parser.add_argument("--corpus", type=Path, nargs="*", metavar="PATH", help="only these programs")
    parser.add_argument("--aimed", action="store_true", help="only the programs of tests/legality")
    parser.add_argument("--show", metavar="PROGRAM", help="print a random program, such as 'source program 7'")
    args = parser.parse_args(argv)
    if args.show:
        return show(args.show)
    os.environ.setdefault("FUTAD_CFLAGS", "-O1")
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    names = conditions(args.only)
    start = time.monotonic()
    known = recorded()
    paths = [ROOT / p for p in (CORPUS[:1] if args.aimed else CORPUS)]
    if args.corpus:
        paths = [p.resolve() for p in args.corpus]
    random: Sequence[int] = range(0 if args.aimed or args.corpus else args.random)
    if args.recorded:
        names = [n for n in names if n in known]
    if args.missing:
        names = [n for n in names if n not in known]
    items = items_of(known, names) if args.recorded else load(paths, random)
    print(f"{len(names)} mutants, {len(items)} programs compiled in {time.monotonic() - start:.0f} s", flush=True)
    outcomes = []
    for o in hunt_all(names, items, args.seconds, args.jobs, args.suite):
        outcomes.append(o)
        print(f"{o.shown(known.get(o.condition, '') if args.recorded else '')} ({o.seconds:.1f} s)", flush=True)
    found = [o for o in outcomes if o.found is not None]
    print(f"{len(found)} of {len(outcomes)} mutants found, {time.monotonic() - start:.0f} s")
    unnamed = [o for o in found if by_number(o.program)]
    if args.record:
        record(outcomes)
        for o in unnamed:
            print(f"not recorded: {o.condition}: save what {o.program} (--show) needs of it in tests/legality")
    return 0 if len(found) == len(outcomes) and not (args.record and unnamed) else 1


if __name__ == "__main__":
    sys.exit(main())
