"""Accumulators that each iteration of a map updates at places of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.accs.injective_updates import SMALL, own_places
from futad.accs.reduce import accs
from futad.backend.c_emit import has
from futad.core import ir
from futad.core.interp import Interpreter
from futad.core.types import AccType, Var
from futad.imp import ir as imp
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend, without_accs
from tests.support.agreement import agree
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

HEAD = "def wrapped (n: i64) (j: i64): i64 = if j < 0 then j + n else if j >= n then j - n else j\n"
OWN = {
    "forward": "wrapped n (i + c)",
    "back": "wrapped n (i - 3 * c)",
    "twice": "wrapped n (wrapped n (i + c) + c)",
    "modulo": "(i + c) % n",
    "mirrored": "(c - i) % n",
    "reversed": "n - 1 - i",
    "next": "if i == n - 1 then 0 else i + 1",
    "before": "if i != 0 then i - 1 else n - 1",
    "plain": "i + c",
}
SHARED = {
    "even": "2 * i",
    "halves": "i / 2",
    "blocks": "i % i64.max 1 c",
    "clamped": "i64.max 0 (i - c)",
    "last": "if i == n - 1 then 1 else i + 1",
    "folded": "if i < c then c - i else i",
    "two": "if i < c then i else i - c",
    "products": "(c * i) % n",
}
TORUS = """
entry torus [n][m] (c: i64) (d: i64) (x: [n][m]f64) (w: [n][m]f64): [n][m]f64 =
  vjp (\\x -> tabulate_2d n m (\\i j -> w[i, j] * x[wrapped n (i + c), wrapped m (j + d)]
                                     + f64.sin x[i, (j + c) % m] * x[n - 1 - i, wrapped m (j - d)])) x w
entry rows [n][m] (c: i64) (d: i64) (x: [n][m]f64) (w: [n][m]f64): [n][m]f64 =
  vjp (\\x -> tabulate n (\\i -> loop s = w[i] for _k < 3 do
                                 map2 (\\a b -> a * b + f64.i64 d) s x[wrapped n (i + c)])) x w
entry line [n] (c: i64) (x: [n]f64) (w: [n]f64): [n]f64 =
  vjp (\\x -> tabulate n (\\i -> w[i] * x[wrapped n (i + c)])) x w
entry branches [n][m] (c: i64) (d: i64) (x: [n][m]f64) (w: [n][m]f64): [n][m]f64 =
  vjp (\\x -> tabulate n (\\i -> let j = wrapped n (i + c)
                               in map (\\v -> if v > 0 then v * x[j, 0] else x[j, m - 1] + x[j, (d + i) % m]) w[i])) x w
"""


def text(places: dict[str, str]) -> str:
    parts = [HEAD]
    for name, place in places.items():
        parts.append(f"entry {name}_place [n] (c: i64) (_: [n]f64): [n]i64 = tabulate n (\\i -> {place})\n")
        parts.append(
            f"entry {name} [n] (c: i64) (x: [n]f64) (w: [n]f64): [n]f64 =\n"
            f"  vjp (\\x -> tabulate n (\\i -> f64.sin (w[i] * x[{place}]))) x w\n"
        )
    return "".join(parts)


def compiled(source: str) -> Any:
    return compile_program(compile_text(source, "places.fut"), check=True)


def found(program: ir.Program, name: str) -> list[list[Var] | None]:
    """What is found out about the accumulators of the entry's outermost maps."""
    out: list[list[Var] | None] = []
    defs: dict[Any, ir.Exp] = {}

    def walk(lam: ir.Lambda) -> None:
        for s in lam.stms:
            defs.update(dict.fromkeys(s.pat, s.exp))
            e = s.exp
            if isinstance(e, ir.Map):
                pairs = list(zip(e.lam.params, e.arrays, strict=True))
                counters = {p: 1 for p, a in pairs if isinstance(defs.get(a), ir.Iota)}
                accs = [p for p, _ in pairs if isinstance(p.type, AccType)]
                out.extend(own_places(e.lam, p, counters, e.width, defs) for p in accs)
                continue
            for inner in e.lambdas():
                walk(inner)

    walk(without_accs(program).funs[name].body)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_places_of_their_own(name: str) -> None:
    core = compiled(text({name: OWN[name]}))
    lines: list[str] = []
    accs(core, report=lines)
    small = found(core, name)
    if name not in ("reversed", "plain"):
        assert small != [] and all(s is not None for s in small), small
        assert lines and all("places of its own" in line for line in lines)
    assert any(s for s in small) == (name in ("modulo", "mirrored"))


@pytest.mark.parametrize("name", SHARED)
def test_places_in_common(name: str) -> None:
    assert set(map(str, found(compiled(text({name: SHARED[name]})), name))) == {"None"}


@pytest.mark.slow
def test_random_places() -> None:
    """What is said to be of its own is so, for all sizes and shifts."""
    rng = np.random.default_rng(5)

    def place(depth: int) -> str:
        if depth == 0:
            return str(rng.choice(["i", "i", "i", "i + c", "n - 1 - i", "c - i", "i + 2 * n"]))
        a, k = place(depth - 1), rng.integers(-3, 4)
        end, there = rng.choice(["n - 1", "c", "0"]), rng.choice(["0", "n", "c + n", str(k)])
        forms = [
            f"(if {a} < {rng.choice(['n', 'c', '0'])} then {a} else {a} - n)",
            f"(if {rng.choice(['i', a])} == {end} then {there} else {a} + {k})",
            f"(if {rng.choice(['i', a])} != {end} then {a} + {k} else {there})",
            f"(({a} + c) % {rng.choice(['n', 'n', 'n + 1'])})",
            f"({a} + {k} * {rng.choice(['n', 'c'])})",
        ]
        return str(rng.choice(forms))

    places = {f"p{k}": place(1 + k % 3) for k in range(30)}
    core = compiled(text(places))
    own = 0
    for name, expression in places.items():
        answer = found(core, name)
        if None in answer or not answer:
            continue
        own += 1
        for n in (1, 2, 5, 8):
            for c in (0, 1, -1, 2, n, 7):
                (at,) = Interpreter(core).run(f"{name}_place", [n, c, np.zeros(n)])
                inside = [p for p in at if 0 <= p < n]
                assert len(inside) == len(set(inside)), (expression, n, c, at)
    assert own > 8


@pytest.fixture(scope="module")
def core() -> Any:
    return compiled(text(OWN | SHARED) + TORUS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["c", "multicore"])
def test_gradients(core: Any, kind: str) -> None:
    backend = c_backend(core, multicore=kind == "multicore", grain=1)
    rng = np.random.default_rng(3)
    agreed = 0
    for name in OWN | SHARED:
        for n in (0, 1, 2, 150):
            for c in sorted({0, 1, -1, n // 2, n - 1, n, -n, 2 * n + 3}):
                agreed += agree(core, backend, name, [n, c, *rng.standard_normal((2, n))], 1e-13)
    assert agreed > 200
    for name in ("torus", "rows", "branches"):
        for n, m in ((1, 1), (2, 1), (2, 3), (5, 130), (90, 7)):
            for c, d in ((0, 0), (1, -1), (n - 1, m), (-n, 1), (1, m - 1)):
                x, w = rng.standard_normal((2, n, m))
                assert agree(core, backend, name, [n, m, c, d, x, w], 1e-13), (name, n, m, c, d)


@pytest.mark.slow
@needs_cxx
def test_gradients_on_a_device() -> None:
    device = OnDevice(text(OWN) + TORUS)
    agreed = 0
    for name in (*OWN, "torus", "rows", "branches"):
        for n, m in ((1, 1), (2, 3), (33, 5)):
            for c in (0, 1, 1 - n):
                sizes, numbers = ([n, m], [c, -1]) if name in ("torus", "rows", "branches") else ([n], [c])
                args = [*sizes, *numbers, *np.random.default_rng(n).standard_normal((2, *sizes))]
                agreed += agree(device.program, device, name, args, 1e-13)
    assert agreed > 80


@pytest.mark.slow
def test_sums_that_wrap_around(core: Any) -> None:
    """Remainders of sums beyond i64 coincide; one thread then does all."""
    backend = c_backend(core, multicore=True, grain=1)
    for n in (3, 1000):
        x, w = np.random.default_rng(n).standard_normal((2, n))
        for c in (2**63 - 1, 2**63 - n // 2, -(2**63), SMALL, -SMALL, SMALL - 1):
            assert agree(core, backend, "modulo", [n, c, x, w], 1e-13)
            assert agree(core, backend, "mirrored", [n, c, x, w], 1e-13)


@pytest.mark.slow
def test_threads_need_no_copies(core: Any) -> None:
    """Where places are in common there is a copy of the accumulator for each thread."""
    functions = {f.name: f.body for f in c_backend(core, multicore=True).module.functions}
    assert has(functions["halves"], imp.PerThread) and has(functions["even"], imp.PerThread)
    assert not any(has(functions[name], imp.PerThread) for name in (*OWN, "rows", "branches"))


PART = {
    "longer": "entry longer [n][m] (x: [n]f64) (w: [m]f64): [n]f64 =\n"
    "  vjp (\\x -> tabulate m (\\i -> f64.sin (w[i] * x[wrapped m (i + 1)]))) x w\n",
    "branch": "entry branch [n] (x: [n]f64) (w: [n]f64): [n]f64 =\n"
    "  vjp (\\x -> tabulate n (\\i -> if w[i] > 0 then f64.sin (w[i] * x[wrapped n (i + 1)]) else w[i])) x w\n",
    "linear": "entry linear [n] (x: [n]f64) (w: [n]f64): [n]f64 =\n"
    "  vjp (\\x -> tabulate n (\\i -> w[i] * (#[unsafe] x[wrapped n (i + 1)]))) x w\n",
    "twice": "entry twice [n] (x: [n]f64) (w: [n]f64): [n]f64 =\n"
    "  vjp (\\x -> tabulate n (\\i -> f64.sin (w[i] * x[wrapped n (i + 1)] * x[n - 1 - i]))) x w\n",
    "before": "entry before [n] (x: [n]f64) (w: [n]f64): [n]f64 =\n"
    "  let d = vjp (\\x -> tabulate n (\\i -> f64.sin (w[i] * x[wrapped n (i + 1)]))) x w\n"
    "  in (vjp (\\(x, s) -> map2 (+) (tabulate n (\\i -> f64.cos x[wrapped n (i - 2)])) (map (* s) x)) (x, 2) d).0\n",
}
"""Derivatives that add to some places only, or more than once."""


def adds(body: list[imp.Stmt]) -> bool:
    """Whether something is added to memory."""
    return any(
        (isinstance(s, imp.Store) and s.op is not None)
        or any(adds(getattr(s, part, [])) for part in ("body", "then", "orelse"))
        for s in body
    )


@pytest.mark.slow
def test_what_is_stored_and_not_added(core: Any) -> None:
    """Where every place of the adjoint is updated once, it needs no zeros."""
    for multicore in (False, True):
        functions = {f.name: f.body for f in c_backend(core, multicore=multicore).module.functions}
        assert not adds(functions["line"])
        stored = {name for name in OWN | SHARED if not adds(functions[name])}
        assert stored == OWN.keys() - {"modulo", "mirrored"}
        backend = c_backend(compiled(HEAD + "".join(PART.values())), multicore=multicore, grain=1)
        functions = {f.name: f.body for f in backend.module.functions}
        assert [name for name in PART if not adds(functions[name])] == []
        for name in PART:
            for n in (0, 1, 2, 3, 200):
                x, w = np.random.default_rng(n).standard_normal((2, n))
                sizes = [n + 2, n] if name == "longer" else [n]
                args = [*sizes, np.resize(x, sizes[0]), w]
                assert agree(backend.program, backend, name, args, 1e-13) or n == 1


def test_a_constant_width() -> None:
    source = """
      entry main (c: i64) (x: [6]f64): [6]f64 =
        vjp (\\x -> tabulate 6 (\\i -> x[if i + 2 < 6 then i + 2 else i - 4] * f64.i64 c)) x (replicate 6 1)
      entry other (c: i64) (x: [6]f64): [6]f64 =
        vjp (\\x -> tabulate 6 (\\i -> x[if i + 2 < 6 then i + 2 else i - 3] * f64.i64 c)) x (replicate 6 1)
    """
    core = compiled(source)
    assert found(core, "main") == [[]] and found(core, "other") == [None]
