"""What a user's schedule asks of the grids of nests (`rewrite/choices.py`): versions that are forced or forbidden.

    nest "gmm.fut:55": block            the host takes this version; the one that is always right where it is impossible
    nest "gmm.fut:48": no parts         it never takes this one

Conditions of versions say what pays.  What is right whatever they say are the last version of a grid, which has none,
and threads alone.
"""

from __future__ import annotations

from dataclasses import replace

from futad.core.check_grid import LEVELS
from futad.core.grid import Grid, Version
from futad.core.ir import Lambda, Program, Stm, map_bodies
from futad.errors import UsageError
from futad.rewrite.choices import Choice, Choices, Nest
from futad.rewrite.words import nearest

ALWAYS = "0 <= points"  # a condition that holds
NAMES = tuple(dict.fromkeys(level for levels in LEVELS.values() for level in levels if level != "host"))


def chosen(program: Program, choices: Choices) -> Program:
    """The program with the versions that are left.  Raises UsageError where none of the nests of a name has such a
    version, or none would be left that is always right."""
    choices.of(program, _known)
    for n in choices.nests.values():
        n.failed |= dict.fromkeys(n.forced, "it is part of a kernel")
    made = map_bodies(program, lambda body: _scope(body, choices))
    choices.done()
    return made


def _known(c: Choice) -> Choice:
    if c.name not in NAMES or c.args:
        raise UsageError(f"devices have no version '{c}'", hint=nearest(c.name, NAMES))
    return c


def _scope(lam: Lambda, choices: Choices) -> Lambda:
    stms = tuple([_statement(s, choices) for s in lam.stms])
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, stms, lam.result)


def _statement(s: Stm, choices: Choices) -> Stm:
    exp = s.exp.rebuild(lambda a: a, lambda f: _scope(f, choices)) if s.exp.scoped and s.grid is None else s.exp
    grid, nest = s.grid, choices.nests.get(s)
    if grid is not None:
        grid = replace(grid, versions=tuple([_inside(v, choices) for v in grid.versions]))
        if nest is not None:
            target = grid.otherwise if grid.template == "product" and grid.otherwise is not None else grid
            left = _left(target, nest)
            _report(left, nest)
            grid = replace(grid, otherwise=left) if target is not grid else left
    return s if exp is s.exp and grid is s.grid else Stm(s.pat, exp, s.attrs, grid)


def _inside(v: Version, choices: Choices) -> Version:
    return v if v.body is None else replace(v, body=_scope(v.body, choices))


def _left(g: Grid, nest: Nest) -> Grid:
    """The grid with the versions that a schedule leaves."""
    levels = [v.level for v in g.versions]
    there = f"it has {', '.join(levels)}" if levels else f"it is run as '{g.template}'"
    nest.failed = {c: there for c in nest.forced if c.name not in levels}
    wanted = {c.name for c in nest.forced} & set(levels) or set(levels)
    left = [v for v in g.versions if v.level in wanted and nest.allows(v.level)]
    if not nest.asked or len(left) == len(levels):
        return g
    if "columns" not in {v.level for v in left}:
        left = [replace(v, when=v.spare or v.when, spare="") for v in left]
    if left and not left[-1].when:
        pass
    elif any(v.level == "thread" for v in left):  # right for any sizes; warps are an addition to blocks
        others = [v for v in left if v.level not in ("thread", "warp")]
        left = [*others, *[replace(v, when="") for v in left if v.level == "thread"]]
    elif nest.allows(levels[-1]):
        left = [*[replace(v, when=ALWAYS) if nest.forced else v for v in left], g.versions[-1]]
    else:
        nest.failed |= {c: f"{there}, and no other is always right" for c in nest.asked if c.no and c.name in levels}
        return g
    thread = replace(g, versions=(Version("thread"),), otherwise=None)
    alone = g.template == "map" and all(v.level != "thread" for v in left)
    return replace(g, versions=tuple(left), otherwise=thread if alone else g.otherwise)


def _report(g: Grid, nest: Nest) -> None:
    """What the host may do with the nest, for the reader."""
    ways = [f"{v.level} if {v.when}" if v.when else v.level for v in g.versions]
    nest.ways = [f"{g.template}{f' ({g.why})' if g.why else ''}", *ways]


__all__ = ["chosen"]
