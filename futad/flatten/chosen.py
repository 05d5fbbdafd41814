"""What a user's schedule asks of the grids of nests (`rewrite/choices.py`): choices that are forced or forbidden.

    nest "gmm.fut:55": block            the host takes this version; the one that is always right where it is impossible
    nest "gmm.fut:48": no parts         it never takes this one
    nest "gmm.fut:48": no tiles         the statement is decided again, without

Conditions of versions say what pays.  What is right whatever they say are the last version of a grid, which has none,
and threads alone.  What lowering decides it asks itself (`device_choices.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from futad.core.grid import Grid, Version
from futad.core.ir import Lambda, Program, Stm, map_bodies
from futad.flatten.device_choices import ANOTHER, BY_NAME, EVERY, known, way_of, ways
from futad.flatten.map_versions import Note
from futad.rewrite.choices import SAID, Choices, Nest

ALWAYS = "0 <= points"  # a condition that holds
NEEDED = {"shared": "0 < work"}  # what a version needs to be right

Notes = Mapping[Stm, Note]


def chosen(program: Program, choices: Choices, notes: Notes) -> Program:
    """The program with the choices that are left, of statements of which there are `notes`.  Raises UsageError where
    none of the nests of a name has such a choice, or none would be left that is always right."""
    choices.of(program, known)
    for n in choices.nests.values():
        n.failed |= dict.fromkeys(n.forced, "it is part of a kernel, or of a version that the schedule leaves out")
    made = map_bodies(program, lambda body: _scope(body, choices, notes))
    choices.done()
    return made


def _scope(lam: Lambda, choices: Choices, notes: Notes) -> Lambda:
    stms = tuple([_statement(s, choices, notes) for s in lam.stms])
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, stms, lam.result)


def _statement(s: Stm, choices: Choices, notes: Notes) -> Stm:
    nest = choices.nests.get(s)
    if s.grid is None:
        if not s.exp.scoped:
            return s
        exp = s.exp.rebuild(lambda a: a, lambda f: _scope(f, choices, notes))
        return s if exp is s.exp else Stm(s.pat, exp, s.attrs)
    note = notes.get(s)
    if s.grid.template == "loop":
        exp = s.exp.rebuild(lambda a: a, lambda f: _scope(f, choices, notes))
        s = s if exp is s.exp else Stm(s.pat, exp, s.attrs, s.grid)
    if nest is None:
        return s
    made = _anew(s, nest, note)
    grid = made.grid
    if made is s and grid is not None:
        grid = replace(grid, versions=tuple([_inside(v, choices, notes) for v in grid.versions]))
    if grid is not None:
        _refusals(grid, nest, note)
        grid = _left(grid, nest)
        _report(grid, nest)
        nest.asked = [c for c in nest.asked if c.no or c not in nest.failed]  # what others of the name may have
    made = Stm(made.pat, made.exp, made.attrs, grid)
    choices.becomes(nest, made)
    return made


def _inside(v: Version, choices: Choices, notes: Notes) -> Version:
    return v if v.body is None else replace(v, body=_scope(v.body, choices, notes))


def _anew(s: Stm, nest: Nest, note: Note | None) -> Stm:
    """The statement, decided again if the schedule forbids how it is run as a whole, or asks for something else."""
    forced, forbidden = ways(nest), {c.name for c in nest.asked if c.no}
    made, without = s, frozenset[str]()
    while (way := way_of(made.grid)) is not None and (way in forbidden or (forced and way not in forced)):
        again = note.again(without | {way}) if note is not None else made
        if way_of(again.grid) == way:
            break
        made, without = again, without | {way}
    way, levels = way_of(made.grid), {v.level for v in made.grid.versions} if made.grid is not None else set()
    if way in forbidden:
        why = f"it is run by '{way}', and no other is always right"
        nest.failed |= {c: why for c in nest.asked if c.no and c.name == way}
        return s
    if forced and way not in forced and not forced & levels:
        return s
    for name in without:
        nest.was_not(name, SAID if name in forbidden else ANOTHER)
    return made


def _refusals(g: Grid, nest: Nest, note: Note | None) -> None:
    """The reasons against the choices that are not there."""
    there = {way_of(g), *[v.level for v in g.versions]}
    for c in EVERY:
        if g.template in c.templates and c.name not in there and not c.late and c.name not in nest.refused:
            own = g.why if c.name == "one-pass" else ""
            nest.was_not(c.name, own or (note.why.get(c.name, "") if note is not None else "") or c.otherwise)


def _left(g: Grid, nest: Nest) -> Grid:
    """The grid with the versions that a schedule leaves."""
    way, levels = way_of(g), [v.level for v in g.versions]
    if way is not None:
        nest.was(way)
    there = f"it has {', '.join(levels)}" if way is None else f"it is run as '{way}'"
    nest.failed |= {c: nest.refused.get(c.name, "") or there for c in nest.forced if c.name not in levels}
    late = [c for c in nest.forced if BY_NAME[c.name].late and g.template in BY_NAME[c.name].templates]
    for c in [c for c in nest.forced if c.name == way or c.name in levels or c in late]:
        nest.failed.pop(c, None)
    if g.template == "product" and g.otherwise is not None:
        return replace(g, otherwise=_versions(g.otherwise, nest, f"{there}, or, where that is impossible, otherwise"))
    return g if way is not None else _versions(g, nest, there)


def _versions(g: Grid, nest: Nest, there: str) -> Grid:
    """The grid with those of its versions that a schedule leaves; `there`: what it has."""
    levels = [v.level for v in g.versions]
    if not nest.asked or not levels:
        return g
    wanted = ways(nest) & set(levels) or set(levels)
    for level in [x for x in levels if x not in wanted]:
        nest.was_not(level, ANOTHER)
    left = [v for v in g.versions if v.level in wanted and nest.allows(v.level)]
    if len(left) == len(levels):
        return g
    if "columns" not in {v.level for v in left}:
        left = [replace(v, when=v.spare or v.when, spare="") for v in left]
    if left and not left[-1].when:
        pass
    elif any(v.level == "thread" for v in left):  # right for any sizes; warps are an addition to blocks
        others = [v for v in left if v.level not in ("thread", "warp")]
        left = [*others, *[replace(v, when="") for v in left if v.level == "thread"]]
    elif nest.allows(levels[-1]):
        sure = bool(ways(nest))
        left = [*[replace(v, when=NEEDED.get(v.level, ALWAYS)) if sure else v for v in left], g.versions[-1]]
    else:
        nest.failed |= {c: f"{there}, and no other is always right" for c in nest.asked if c.no and c.name in levels}
        return g
    thread = replace(g, versions=(Version("thread"),), otherwise=None)
    alone = g.template == "map" and all(v.level != "thread" for v in left)
    return replace(g, versions=tuple(left), otherwise=thread if alone else g.otherwise)


def _report(g: Grid, nest: Nest) -> None:
    """What the host may do with the nest, for the reader."""
    lines = [f"{v.level} if {v.when}" if v.when else v.level for v in g.versions]
    nest.ways = [f"{g.template}{f' ({g.why})' if g.why else ''}", *(lines if way_of(g) is None else [])]


__all__ = ["chosen"]
