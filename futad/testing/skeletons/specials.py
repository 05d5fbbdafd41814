# ruff: noqa: E501 (programs read better unbroken)
"""NaN, infinities and zeros in what is given: compared, chosen, clamped, counted, converted, folded.  What depends on
the sign of a zero is made of numbers as they are given."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program, par
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of

# Those whose results do not hang on the order of what is combined, which a NaN decides.
_OTHERS = ("handover", "aliases", "masks", "borders", "clamps", "duplicates", "specials", "specials")


def _test(g: Gen, x: str, y: str) -> str:
    k = g.number()
    one = g.c(
        f"t.isnan {x}", f"t.isinf {x}", f"{x} == {y}", f"{x} != {y}", f"{x} != {x}", f"{x} == {x}", f"{x} < {y}", f"!({x} < {y})", f"{x} >= {y}",
        f"!({x} >= {k})", f"{x} <= {y} || {x} > {y}", f"{x} < {k} && {y} < {k}", f"t.abs {x} < t.inf", f"{x} == -t.inf", f"!({x} != 0)", f"t.abs ({x} - {y}) <= 0.5",
    )  # fmt: skip
    return one if g.p(0.8) else f"({one}) == ({_test(g, y, x)})"


def _number(g: Gen, x: str, y: str, depth: int = 2) -> str:
    k = g.number()
    if depth and g.p(0.5):
        a, b = _number(g, x, y, depth - 1), _number(g, y, x, depth - 1)
        return g.c(
            f"(if {_test(g, x, y)} then {a} else {b})", f"(if {_test(g, x, y)} then {a} else {b})", f"(t.min {a} {b})", f"(t.max {a} {b})", f"({a} + {k} * {b})",
            f"({a} - {b})", f"({a} * {b})", f"(t.max (-1.5) (t.min 1.25 {a}))", f"(t.min (t.max {a} (-0.7)) {b})",
        ) if not g.p(0.2) else f"(let z = {a} in if {_test(g, 'z', y)} then {b} else z)"  # fmt: skip
    return par(g.c(
        x, y, f"({x} - {x})", f"(0 * {x})", f"({x} * {y})", f"({k} - {x})", f"t.abs {x}", f"t.sgn {x}", f"t.floor {x}", f"t.round {x}", f"t.trunc {x}",
        f"t.sqrt {x}", f"t.log (t.abs {x})", f"t.exp ({k} * {x})", f"t.tanh {x}", f"t.atan {x}", f"t.exp (-(t.abs {x}))", f"(1 / (1 + t.exp (-{x})))",
        f"(t.i64 (t.to_i64 (10 * {x})) * 0.01)", f"({x} * {x})", f"(t.bool ({_test(g, x, y)}) * {x})", f"t.max {x} 0", f"t.min 0 {x}", f"(if {x} > 0 then {x} else 0)",
        f"({x} ** 2)", f"(t.abs {x} ** {y})", f"(t.abs {x} / (1 + t.abs {y}))", f"t.ceil {x}",
    ))  # fmt: skip


def mapped(v: Vectors) -> str:
    g = v.g
    x, y = g.name("x"), g.name("x")
    return f"map2 (\\{x} {y} -> {_number(g, x, y)}) {v.view()} {v.view()}"


def divided(v: Vectors) -> str:
    """What is given, as it is: signs of zeros count."""
    g = v.g
    x, y = g.name("x"), g.name("x")
    text = g.c(f"{x} / {y}", f"1 / {x}", f"{x} / {x}", f"0 / {y}", f"({x} / {y}) * {y}", f"1 / ({x} * {y})", f"t.min {x} (1 / {y})", f"1 / t.abs {x}")
    return f"map2 (\\{x} {y} -> {text}) {g.c('xs', 'ys', '(reverse xs)')} ys"


def imputed(v: Vectors) -> str:
    """What is no number is replaced: by a mean of the others, by the last one that is one, by a constant."""
    g = v.g
    x, s, c, i = g.name("x"), g.name("s"), g.name("c"), g.name("i")
    a = v.array()
    bad = g.c(f"t.isnan {x}", f"t.isnan {x} || t.isinf {x}", f"{x} != {x}", f"!(t.abs {x} < 10)")
    kind = g.r.randrange(3)
    if kind == 0:
        return f"let {s} = t.sum (map (\\{x} -> if {bad} then 0 else {x}) {a}) in let {c} = i64.sum (map (\\{x} -> i64.bool (!({bad}))) {a}) in map (\\{x} -> if {bad} then {s} / t.i64 (i64.max 1 {c}) else {x}) {a}"
    if kind == 1:
        return f"let {s} = scan (\\(p, f) (q, g) -> if g then (q, g) else (p, f || g)) (0, false) (map (\\{x} -> ({x}, !({bad}))) {a}) in map (\\(p, f) -> if f then p else {g.number()}) {s}"
    return f"(loop ({s}, {c}: *[n]t) = (0.5, copy {a}) for {i} < n do let {x} = {c}[{i}] in if {bad} then ({s}, {c} with [{i}] = {s}) else ({x}, {c})).1"


def folded(v: Vectors) -> str:
    """Extrema, sums, counts and places of some."""
    g = v.g
    x, s, a = g.name("x"), g.name("s"), v.view()
    fold = g.c(
        f"t.maximum {a}", f"t.minimum {a}", f"t.sum {a}", f"reduce t.max (-2) {a}", f"reduce t.min t.inf {a}", f"t.i64 (i64.sum (map (\\{x} -> i64.bool (t.isnan {x})) {a}))",
        f"t.bool (any (\\{x} -> {x} == t.inf) {a})", f"t.bool (all (\\{x} -> {x} < 5) {a})", f"(loop z = 0.3 for {x} in {a} do {_number(g, 'z', x, 1)})", f"(loop z = -1 for {x} in {a} do if {x} > z then {x} else z)",
        f"t.i64 (length (filter (\\{x} -> !({x} > 0)) {a}))", f"t.product (map (\\{x} -> t.min 1.1 (t.max 0.9 {x})) {a})",
    )  # fmt: skip
    return f"let {s} = {fold} in map (\\{x} -> {_number(g, s, x)}) {v.array()}"


def scanned(v: Vectors) -> str:
    g, x = v.g, v.g.name("x")
    return g.c(f"scan t.max (-t.inf) {v.view()}", f"scan t.min t.inf {v.view()}", f"scan (+) 0 {v.view()}", f"scan t.max t.lowest (map (\\{x} -> {_number(g, x, '0.25')}) {v.view()})")


MAKERS["specials"] = (mapped, mapped, mapped, divided, imputed, folded, scanned)


def specials(g: Gen) -> Program:
    made = program_of(g, "specials", _OTHERS, special=True)
    made.smooth = False
    return made


FAMILIES = [specials]
