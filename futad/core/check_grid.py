"""The checker's rules of how devices run statements (`grid.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from futad.core import ir
from futad.core.checker import Checker, fail, rule
from futad.core.grid import QUANTITIES, SHARED_BYTES, TEMPLATES, Grid, comparisons
from futad.core.types import I64, ArrayType, Atom, Prim, elem_of, shape_of

# The levels of templates that have versions, and which of them are other statements.
LEVELS: dict[str, dict[str, bool]] = {
    "scope": {
        "one-batch": True, "rows-reshaped": True, "updates-as-sums": True, "one-fold": True, "map-then-folds": True,
        "folds-by-columns": True, "folds-of-arrays": True, "bins-apart": True,
    },
    "map": {
        "loop": True, "thread": False, "columns": True, "parts": True, "one-scan": True, "folds": True, "warp": False,
        "block": False, "distributed": True, "tiles": False,
    },
    "loop": {"one-block": False, "by-host": False},
    "histogram": {"shared": False, "atomic": False, "sorted": True, "locks": False},
}  # fmt: skip


@rule(Grid)
def _grid(c: Checker, g: Grid, s: ir.Stm) -> None:
    if g.template not in TEMPLATES:
        fail(f"no template is called '{g.template}'")
    for a in (*g.space, *g.inner, *[a for term in g.work for a in term]):
        c.use(a)
        c.is_a("size", a, I64)
    for a, width in zip(g.space, _widths(s, g), strict=True):
        if c.resolve(a) is not c.resolve(width):
            fail(f"its space has {a!r} where the statement has {width!r}")
    if g.shared > SHARED_BYTES:
        fail(f"{g.shared} bytes of shared memory, of {SHARED_BYTES}")
    if g.versions and g.versions[-1].when or any(not v.when for v in g.versions[:-1]):
        fail("the last version, and no other, is the one that is always right")
    if len({v.level for v in g.versions}) < len(g.versions) or bool(g.versions) != (g.template in LEVELS):
        fail(f"versions {[v.level for v in g.versions]} of '{g.template}'")
    for v in g.versions:
        if LEVELS[g.template].get(v.level) is not (v.body is not None):
            fail(f"a version '{v.level}' of '{g.template}', {'other' if v.body else 'no other'} statements")
        for when in [text for text in (v.when, v.spare) if text]:
            _condition(g, when)
        if v.body is not None:
            _body(c, s, v.level, v.body)
    if g.otherwise is not None:
        _grid(c, g.otherwise, s)


def _widths(s: ir.Stm, g: Grid) -> Sequence[Atom]:
    """The sizes that a template's space has, as the statement has them."""
    e, n = s.exp, len(g.space)
    match g.template, e:
        case ("reduce" | "scan" | "scan-in-chunks"), ir.Screma() if e.folds:
            if bool(e.scans) == (g.template == "reduce"):
                fail(f"'{g.template}' of {len(e.scans)} scans")
            if not all(isinstance(a.type, Prim) for f in e.folds for a in f.neutral):
                fail(f"'{g.template}' of arrays")
            return (e.width,)
        case ("map" | "tiles"), ir.Map():
            out: list[Atom] = [e.width]
            inside: list[ir.Stm] = list(e.lam.stms)
            while len(out) < n:
                found = [x.exp for x in inside if isinstance(x.exp, ir.Soac)] or fail(f"a space of {n} sizes")
                out.append(found[-1].width)
                inside = [x for f in found[-1].lambdas() for x in f.stms]
            return out
        case "histogram", ir.Hist():
            return (e.width, *shape_of(e.dests[0].type)[len(e.idxs) :])
        case "product", ir.MatMul() | ir.Map():
            return ()
        case ("elements", ir.MatMul()) | ("sort", ir.ArgSort()):
            return ()
        case "scope", ir.Screma() | ir.Hist():
            return ()
        case ("one-thread", ir.Loop() | ir.ArgSort()) | ("loop", ir.Loop()):
            return ()
    fail(f"'{g.template}' is no template of a {type(e).__name__}")


def _condition(g: Grid, when: str) -> None:
    for alternative in comparisons(when):
        for left, _, right in alternative:
            for name in [name for term in (*left, *right) for name in term]:
                if not (name.isdecimal() or name.isupper() or name in QUANTITIES):
                    fail(f"'{name}' in the condition '{when}'")
                if name == "work" and not g.work or name == "inner" and not (g.inner or g.least):
                    fail(f"'{name}' in the condition '{when}', of which nothing is known")


def _body(c: Checker, s: ir.Stm, level: str, body: ir.Lambda) -> None:
    """Other statements instead: they may bind and consume what the statement does, and their results are its."""
    known = {name: copy(getattr(c, name)) for name in ("bound", "canon", "numbers", "accs", "root", "dead")}
    c.lam(body, once=True)
    if len(set(body.result)) < len(body.result):
        fail("two results of a version in one place")
    if level == "one-scan":  # all rows one after the other
        for a, p in zip(body.result, s.pat, strict=True):
            c.is_a("result", a, ArrayType(elem_of(p.type), shape_of(a.type)[:1]))
    else:
        c.existential("result", s.pat, body.result)
    for name, before in known.items():
        setattr(c, name, before)


__all__: list[str] = []
