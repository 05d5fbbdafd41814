# ruff: noqa: E501 (programs read better unbroken)
"""A program's function inside a map over more points, in a loop, or in both: the same for all families."""

from __future__ import annotations

from dataclasses import replace

from futad.testing.skeletons.base import Dim, Gen, Program, shape_type


def wrapped(g: Gen, p: Program) -> Program:
    """Mostly the program itself."""
    kind = g.r.random()
    if kind < 0.72:
        return p
    if kind < 0.86:
        return mapped(g, p)
    return looped(g, p) or p


def _renamed(p: Program) -> str:
    return p.text.replace("def f@", "def inner@", 1)


def mapped(g: Gen, p: Program) -> Program:
    """One more dimension `b` outside of some parameters (at least one), and of all results."""
    free = [q for q in p.params]
    outside = [q for q in free if g.p(0.6)] or [g.c(*free)]
    if not any(q.is_float for q in outside):
        outside.append(g.c(*p.floats))
    params = [replace(q, shape=("b", *q.shape)) if q in outside else q for q in p.params]
    names = [q.name for q in outside]
    lam = f"\\{' '.join(f'({q.name}: {q.type})' for q in outside)} -> inner@ {' '.join(q.name for q in p.params)}"
    body = f"  map{len(names) if len(names) > 1 else ''} ({lam}) {' '.join(names)}"
    if len(p.results) > 1:
        outs = [g.name("o") for _ in p.results]
        if len(outs) > 5:
            return p
        zip_ = f"unzip{len(outs)}" if len(outs) > 2 else "unzip"
        body = f"  {zip_} ({body.strip()})"
    if len(names) > 5:
        return p
    results = [("b", *r) for r in p.results]
    new = g.program(p.family, params, results, body, _renamed(p), dict(p.least), dict(p.most), p.outs)
    new.most.setdefault("b", 4)
    return _alike(new, p)


def _alike(new: Program, p: Program) -> Program:
    return replace(new, smooth=p.smooth, precision=p.precision, around=p.around, special=p.special)


def looped(g: Gen, p: Program) -> Program | None:
    """The function applied several times: a result of the first parameter's shape takes its place."""
    found = [(q, k) for q in p.floats for k, r in enumerate(p.results) if r == q.shape and not (q.elem or p.outs)]
    if not found:
        return None
    q, k = g.c(*found)
    call = f"inner@ {' '.join(r.name for r in p.params)}"
    if len(p.results) > 1:
        call = f"({call}).{k}"
    squash = _over(q.shape, "small", call)
    ty = shape_type(q.shape)
    iterations: Dim = g.c(2, 3)
    body = f"  let {q.name} : {ty} = loop ({q.name}: {ty}) = {q.name} for iteration < {iterations} do {squash}\n  in inner@ {' '.join(r.name for r in p.params)}"
    new = g.program(p.family, p.params, p.results, body, _renamed(p), dict(p.least), dict(p.most))
    return _alike(new, p)


def _over(shape: tuple[Dim, ...], f: str, x: str) -> str:
    for _ in shape:
        f = f"map ({f})" if " " in f else f"map {f}"
    return f"{f} ({x})"
