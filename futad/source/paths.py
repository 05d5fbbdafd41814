"""Updates along a path of indices and fields."""

from __future__ import annotations

from futad.source import ast

Step = list[ast.Expr | ast.ESlice] | tuple[str, ...]


def update_path(e: ast.EUpdate) -> tuple[list[Step], ast.Expr]:
    """The steps of `a with [i].f[j] = v`, and v.

    The parser nests such an update: `a with [i] = (let r = a[i] in r with f = (r.f with [j] = v))`, where
    both `[i]` are one list.  Done in that order the row would be overwritten in place before `a` is.
    """
    steps: list[Step] = [e.index]
    v = e.value
    while not any(isinstance(i, ast.ESlice) for i in steps[-1]):
        row = v
        if type(v) is ast.ELet and type(v.pat) is ast.PVar and v.pat.name.startswith("with'"):
            row = v.body
        target: ast.Expr | None = None
        if type(row) is ast.EUpdate:
            target = row.array
        elif type(row) is ast.ERecordUpdate:
            target = row.record
        while type(target) is ast.EProject:
            target = target.record
        by_name = type(target) is ast.EVar and target.name.startswith("with'")
        if not by_name and not (type(target) is ast.EIndex and target.index is steps[-1]):
            break
        if type(row) is ast.EUpdate:
            steps.append(row.index)
        else:
            assert type(row) is ast.ERecordUpdate
            steps.append(tuple(row.path))
        v = row.value
    return steps, v
