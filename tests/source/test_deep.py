"""Programs that are nested deeply, and the thread with room for them."""

from __future__ import annotations

import contextvars
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import futad
from futad.cli import main
from futad.deep import SELDOM, deep
from futad.errors import Error, UnsupportedError
from futad.source import check_text


def total(terms: int) -> str:
    return "entry main (x: f64): f64 = " + " + ".join(f"x * {i}" for i in range(terms))


def chain(functions: int) -> str:
    calls = [f"def f{i} (x: f64): f64 = f{i - 1} (x * 0.5 + 1)" for i in range(1, functions)]
    last = f"entry main (x: f64): (f64, f64) = vjp2 f{functions - 1} x 1"
    return "\n".join(["def f0 (x: f64): f64 = x", *calls, last])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_a_sum_of_8000_terms(backend: str) -> None:
    program = futad.compile(total(8000), backend=backend)
    assert program.main(0.5) == 0.5 * 7999 * 8000 / 2


@pytest.mark.slow
def test_a_chain_of_5000_functions() -> None:
    """Each calls the one before; their derivative is 0.5 for each of them."""
    value, slope = futad.compile(chain(5000), backend="interp").main(7.0)
    assert value == pytest.approx(2.0) and slope == 0.5**4999 == 0.0


def test_a_chain_of_60_functions_is_right() -> None:
    value, slope = futad.compile(chain(60), backend="interp").main(7.0)
    assert value == 2 + 5 * 0.5**59 and slope == 0.5**59


NESTS = ["(" * 3000 + "x" + ")" * 3000, "(-" * 3000 + "x" + ")" * 3000, "f64.sin (" * 3000 + "x" + ")" * 3000]


@pytest.mark.slow
@pytest.mark.parametrize("text", NESTS, ids=["brackets", "signs", "calls"])
def test_other_nests(text: str) -> None:
    assert futad.compile(f"entry main (x: f64): f64 = {text}", backend="interp").main(0.0) == 0


@pytest.mark.slow
def test_where_it_is_nested_too_deeply() -> None:
    """The declaration is named, and a part of its line is shown."""
    text = f"def id (x: f64) = x\nentry main (x: f64): f64 = {'(-' * 200_000}id x{')' * 200_000}"
    with pytest.raises(UnsupportedError, match="nested too deeply") as e:
        futad.compile(text, "deep.fut", backend="interp")
    assert e.value.span is not None and (e.value.span.line, e.value.span.col) == (2, 1)
    assert "deep.fut:2:1: error" in str(e.value) and len(str(e.value)) < 1000


BRANCHES = {
    "ifs": "entry main (i: i64): i64 = " + "".join([f"if i <= {k} then {k + 1} else " for k in range(999)]) + "i",
    "match": f"entry main (i: i64): i64 = match i {' '.join([f'case {k} -> {k + 1}' for k in range(999)])} case _ -> 0",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", BRANCHES.values(), ids=BRANCHES)
def test_commands_have_room_too(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.fut"
    path.write_text(text)
    assert main(["check", str(path)]) == 0 and capsys.readouterr() == ("", "")
    assert main(["dev", str(path)]) == 0 and capsys.readouterr().out.count("if(") > 900
    assert futad.compile(text, backend="interp").main(500) == 501


def test_an_array_of_too_many_dimensions() -> None:
    """The place is that of the first one."""
    text = "def most = " + "[" * 64 + "1" + "]" * 64 + "\nentry main (x: f64) = "
    assert check_text(text + "x").entries
    for depth in (65, 20_000):
        with pytest.raises(UnsupportedError, match="an array of more than 64 dimensions") as e:
            check_text(text + "[" * depth + "1" + "]" * depth)
        assert e.value.span is not None and (e.value.span.line, e.value.span.col) == (2, 23 + depth - 65)


LONG = {
    "brackets": lambda n: "(" * n + "x" + ")" * n,
    "array": lambda n: f"[{', '.join(['1f64'] * n)}][0]",
    "tuple": lambda n: f"({', '.join(['x'] * n)}).0",
    "pipes": lambda n: "x" + " |> f64.sin" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
def test_long_texts_take_time_in_proportion(make: Callable[[int], str]) -> None:
    def seconds(n: int) -> float:
        text = f"entry main (x: f64): f64 = {make(n)}"
        start = time.process_time()
        check_text(text)
        return time.process_time() - start

    n = 5_000
    assert min(seconds(8 * n) for _ in range(2)) < 24 * min(seconds(n) for _ in range(2))


@pytest.mark.slow
def test_it_is_the_call_itself() -> None:
    """Its value, its exceptions and its context are the caller's; the limit is as it was."""
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    variable.set(3)
    limit = sys.getrecursionlimit()

    @deep
    def down(n: int) -> int:
        return variable.get() if n == 0 else 1 + down(n - 1)

    @deep
    def fails() -> None:
        raise KeyError("lost")

    assert down(20_000) == 20_003
    with pytest.raises(KeyError, match="lost"):
        fails()
    with pytest.raises(RecursionError):
        down(10**7)
    assert sys.getrecursionlimit() == limit


def test_inside_it_there_is_no_other_thread() -> None:
    @deep
    def where() -> threading.Thread:
        return threading.current_thread()

    @deep
    def both() -> tuple[threading.Thread, threading.Thread]:
        return threading.current_thread(), where()

    inner = both()
    assert inner[0] is inner[1] is not threading.current_thread()


@pytest.mark.slow
def test_several_at_once() -> None:
    program = "entry main (x: i64): i64 = " + " + ".join(["x"] * 2000)
    found: list[object] = []

    def compiled() -> None:
        try:
            found.append(int(futad.compile(program, backend="interp").main(2)))
        except Error as e:
            found.append(e)

    threads = [threading.Thread(target=compiled) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [4000] * 3


def test_an_interrupt_stops_it() -> None:
    """Ctrl-C comes to the thread that waits, and is passed on."""
    begun, stopped = threading.Event(), threading.Event()

    @deep
    def work() -> None:
        begun.set()
        try:
            while True:
                stopped.wait(0.001)
        except KeyboardInterrupt:
            stopped.set()
            raise

    def interrupt() -> None:
        begun.wait()
        for _ in range(20):  # one that comes while memory is given back is lost: `__del__` passes nothing on
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if stopped.wait(1):
                return

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    other.join()
    assert stopped.is_set()


@pytest.mark.parametrize("usual", [(700, 10, 10), (0, 10, 10), (100_000, 5, 5)])
def test_garbage_is_looked_for_less_often_meanwhile(usual):
    before = gc.get_threshold()
    try:
        gc.set_threshold(*usual)
        inside = deep(gc.get_threshold)()
        assert inside == (SELDOM if usual[0] == 700 else usual[0], *usual[1:])
        assert gc.get_threshold() == usual
        deep(lambda: gc.set_threshold(500, 3, 3))()
        assert gc.get_threshold() == (500, 3, 3)  # what others have set meanwhile stays
    finally:
        gc.set_threshold(*before)
