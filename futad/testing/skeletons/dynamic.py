# ruff: noqa: E501 (programs read better unbroken)
"""Dynamic programming: two rows, one row in place, whole tables by rows, diagonals or intervals."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

XY = (Param("x", ("n",)), Param("y", ("m",)))


def _cost(g: Gen, i: str, j: str) -> str:
    """What it costs to put x[i] and y[j] together."""
    x, y = f"x[{i}]", f"y[{j}]"
    if g.p(0.2):
        g.smooth = False
        return f"(if t.abs ({x} - {y}) < 0.37 then {g.number()} else {g.number()})"
    return g.c(f"({x} - {y}) * ({x} - {y})", g.mix(x, y, sharp=0), f"t.abs ({x} - {y})", f"{x} * {y}")


def _step(g: Gen, up: str, left: str, diag: str, cost: str) -> str:
    """A cell from its neighbours, as alignments, edit distances, time warps have it."""
    kind = g.r.randrange(6)
    if kind == 0:
        return f"{cost} + {g.pick(up, left, diag)}"
    if kind == 1:
        return g.pick(f"{up} + {g.number()}", f"{left} + {g.number()}", f"{diag} + {cost}")
    if kind == 2:  # local alignment
        g.smooth = False
        return f"t.max 0 ({g.pick(f'{diag} + {cost}', f'{up} - 0.7', f'{left} - 0.6')})"
    if kind == 3:
        return g.mix(up, left, diag, cost)
    if kind == 4:
        g.smooth = False
        return f"(if {cost} < 0.21 then {diag} + 1 else {g.pick(up, left)})"
    return f"0.4 * {up} + 0.3 * {left} + 0.2 * {diag} + t.sin ({cost})"


def two_rows(g: Gen) -> Program:
    """The row before and the row that is made in place from it."""
    i, j = "i", "j"
    edge = g.c("t.i64 (i + 1)", "0", f"{g.number()} * x[i]", "prev[0] + 0.5")
    size = "(m + 1)"
    start = g.c("tabulate (m + 1) (\\j -> t.i64 j)", f"replicate (m + 1) {g.number()}", "tabulate (m + 1) (\\j -> if j == 0 then 0 else 3.7)",
                "map (\\j -> 0.3 * t.i64 j) (iota (m + 1))")  # fmt: skip
    cell = _step(g, f"prev[{j} + 1]", f"row[{j}]", f"prev[{j}]", _cost(g, i, j))
    made = g.c(f"replicate {size} {g.number()}", "copy prev", "replicate (m + 1) 0")
    if edge != "0" or g.p(0.5):
        made = f"({made}) with [0] = {edge}" if not made.startswith("copy") else f"({made}) with [0] = {edge.replace('prev[0]', 'x[i]')}"
    inner = f"let row : *[m + 1]t = {made} in\n    loop (row: *[m + 1]t) = row for {j} < m do row with [{j} + 1] = {cell}"
    history = g.p(0.35)
    head, first = g.counted("i", "n", 0.2)
    if history:
        body = (f"  let (last, table) : ([m + 1]t, [n][m + 1]t) =\n   loop (prev: [m + 1]t, table: *[n][m + 1]t) = ({start}, replicate n (replicate (m + 1) 0)) {head}\n    {first}"
                f"let row : [m + 1]t = ({inner}) in (row, table with [{g.saved('i', 'n')}] = row)\n  in (last[{g.c('m', 'm', 'm / 2')}], map t.sum table)")  # fmt: skip
        return g.program("two_rows", XY, [(), ("n",)], body)
    body = f"  let last : [m + 1]t = loop (prev: [m + 1]t) = {start} {head}\n    {first}{inner}\n  in "
    out = g.c("last[m]", "t.sum last", "last[m / 2] * last[m]")
    return g.program("two_rows", XY, [()], body + out)


def swapped_rows(g: Gen) -> Program:
    """Two buffers that change places after each row."""
    cell = _step(g, "a[j + 1]", "b[j]", "a[j]", _cost(g, "i", "j"))
    init = g.c("tabulate (m + 1) (\\j -> 0.5 * t.i64 j)", "replicate (m + 1) 0.3")
    edge = g.c("", f"let b = b with [0] = {g.mix('a[0]', 'x[i]')} in ")
    keep = g.c("(b, a)", "(b, a)", "(b, copy b)")
    both = g.c("", ", a[0] + t.sum b")
    head, first = g.counted("i", "n", 0.2)
    body = (f"  let (a, b) : ([m + 1]t, [m + 1]t) =\n   loop (a: *[m + 1]t, b: *[m + 1]t) = ({init}, replicate (m + 1) {g.number()}) {head}\n    {first}{edge}"
            f"let b : *[m + 1]t = loop (b: *[m + 1]t) = b for j < m do b with [j + 1] = {cell} in {keep}\n  in ")  # fmt: skip
    return g.program("swapped_rows", XY, [(), ()] if both else [("m",)], body + (f"(a[m]{both})" if both else "a[1:] :> [m]t"))


def one_row(g: Gen) -> Program:
    """One row updated in place: the old diagonal in a scalar, or a knapsack from behind or the front."""
    if g.p(0.5):
        cell = _step(g, "row[j + 1]", "row[j]", "diag", _cost(g, "i", "j"))
        body = (f"  loop (row: *[m]t) = copy y for i < n do\n"
                f"    (loop (row: *[m]t, diag) = (row, {g.c('x[i]', '0.2')}) for j < m - 1 do\n      let old = row[j + 1] in (row with [j + 1] = {cell}, old)).0")  # fmt: skip
        if g.p(0.5):
            body = body.replace("row with [j + 1]", "row with [j]")
        return g.program("one_row", XY, [("m",)], body)
    weight = g.c("(i % 3 + 1)", "(1 + i % (m + 1))", "1")
    take = f"row[j - w] + {g.c('x[i]', 'x[i] * y[j]', 't.sin x[i]')}"
    new = g.pick("row[j]", take) if g.p(0.7) else g.mix("row[j]", take)
    back = "let j = m - 1 - q in " if g.p(0.6) else "let j = q in "
    body = (f"  loop (row: *[m]t) = {g.c('copy y', 'replicate m 0')} for i < n do\n    let w = {weight} in\n"
            f"    loop (row: *[m]t) = row for q < m do\n      {back}if j < w then row else row with [j] = {new}")  # fmt: skip
    return g.program("one_row", XY, [("m",)], body)


def table(g: Gen) -> Program:
    """A whole table in place, by rows, by columns or from the last cell."""
    cell = _step(g, "tab[i, j + 1]", "tab[i + 1, j]", "tab[i, j]", _cost(g, "i", "j"))
    outer, inner = ("i", "n"), ("j", "m")
    if g.p(0.3):
        outer, inner = inner, outer
    init = g.c("replicate (n + 1) (replicate (m + 1) 0)", "tabulate_2d (n + 1) (m + 1) (\\i j -> 0.2 * t.i64 (i - j))")
    put = "[i + 1, j + 1]"
    head, first = g.counted(outer[0], outer[1], 0)
    body = (f"  let tab : [n + 1][m + 1]t =\n   loop (tab: *[n + 1][m + 1]t) = {init} {head}\n"
            f"    {first}loop (tab: *[n + 1][m + 1]t) = tab for {inner[0]} < {inner[1]} do tab with {put} = {cell}\n  in ")  # fmt: skip
    out, shape = g.c(("tab[n, m]", ()), ("tab[1:, m] :> [n]t", ("n",)), ("t.sum (flatten tab)", ()))
    return g.program("table", XY, [shape], body + out)


def diagonals(g: Gen) -> Program:
    """A table by its anti-diagonals, each a map, or three diagonals that take each other's place."""
    cell = _step(g, "up", "left", "di", _cost(g, "i", "j").replace("x[i]", "x[i - 1]").replace("y[j]", "y[j - 1]"))
    edge = g.c("0.3 * t.i64 (i + j)", "0.4", "0")
    if g.p(0.5):
        body = (f"  let tab : [n + 1][m + 1]t =\n   loop (tab: *[n + 1][m + 1]t) = tabulate_2d (n + 1) (m + 1) (\\i j -> {edge}) for k < n + m - 1 do\n"
                f"    let lo = i64.max 1 (k + 2 - m) in let hi = i64.min n (k + 1) in\n"
                f"    loop (tab: *[n + 1][m + 1]t) = tab for q < hi - lo + 1 do\n      let i = lo + q in let j = k + 2 - i in\n"
                f"      let up = tab[i - 1, j] in let left = tab[i, j - 1] in let di = tab[i - 1, j - 1] in\n      tab with [i, j] = {cell}\n  in tab[n, m]")  # fmt: skip
        return g.program("diagonals", XY, [()], body, least={"n": 1, "m": 1})
    body = (f"  let (a, b) : ([n + 1]t, [n + 1]t) =\n   loop (a: [n + 1]t, b: [n + 1]t) = (replicate (n + 1) {g.number()}, replicate (n + 1) {g.number()}) for k < n + m + 1 do\n"
            f"    let c : [n + 1]t = tabulate (n + 1) (\\i -> let j = k - i in if i == 0 || j <= 0 || j > m then {edge} else\n"
            f"      let up = b[i - 1] in let left = b[i] in let di = a[i - 1] in {cell}) in\n    ({g.c('b', 'copy b')}, c)\n  in b[n] + {g.number()} * t.sum a")  # fmt: skip
    return g.program("diagonals", XY, [()], body)


def paths(g: Gen) -> Program:
    """Viterbi's and the forward algorithm: each state from all states before."""
    fold = g.c("t.maximum", "t.minimum", "reduce softmin 1000", "reduce softmax (-1000)", "t.sum")
    if fold in ("t.maximum", "t.minimum"):
        g.smooth = False
    arc = g.mix("u", "a") if g.p(0.5) else "u + a"
    last = g.mix("z", "e")
    score = f"{fold} (map2 (\\u a -> {arc}) v trans[s])"
    if fold.startswith("t.m"):
        score = f"{fold} (map2 (\\u a -> {arc}) v trans[s]) * 0.9"
    step = f"tabulate k (\\s -> let z = {score} in let e = emit[i, s] in {last})"
    if g.p(0.4):
        step = (f"loop (o: *[k]t) = {g.c('copy v', 'replicate k 0')} for s < k do let z = {score} in let e = emit[i, s] in o with [s] = {last}")
    params = [Param("emit", ("n", "k")), Param("trans", ("k", "k"))]
    if g.p(0.5):
        body = (f"  loop (v: [k]t, hs: *[n][k]t) = (replicate k {g.number()}, replicate n (replicate k 0)) for i < n do\n"
                f"    let v : [k]t = {step} in (v, hs with [{g.saved('i', 'n')}] = v)")  # fmt: skip
        return g.program("paths", params, [("k",), ("n", "k")], body, least={"k": 1})
    return g.program("paths", params, [("k",)], f"  loop (v: [k]t) = replicate k {g.number()} for i < n do {step}", least={"k": 1})


def intervals(g: Gen) -> Program:
    """Matrix chains, optimal trees, CKY: an interval from its splits."""
    kind = g.c("t.min", "t.max", "softmin", "+")
    g.smooth = g.smooth and kind in ("softmin", "+")
    cost = g.c("x[i] * x[k] * x[j]", "t.sin (x[i] + x[j])", g.mix("x[i]", "x[j]", "x[k]", sharp=0))
    cand = g.c(f"tab[i, k] + tab[k, j] + {cost}", f"0.5 * tab[i, k] + 0.4 * tab[k, j] * {cost}", f"small (tab[i, k] * tab[k, j] + {cost})")
    join = "best + 0.3 * new" if kind == "+" else f"{kind} best new"
    found = f"loop best = {g.c('9', '4', '3.3') if kind != 't.max' else '-3.1'} for s < len - 1 do let k = i + 1 + s in let new = {cand} in {join}"
    if g.p(0.4) and kind in ("t.min", "t.max"):
        found = f"{kind}imum (tabulate (len - 1) (\\s -> let k = i + 1 + s in {cand})) + 0"
    body = (f"  let tab : [n][n]t =\n   loop (tab: *[n][n]t) = {g.c('replicate n (replicate n 0)', 'tabulate_2d n n (%i j -> if j == i + 1 then x[i] else 0)')} for l < n - 2 do\n"
            f"    let len = l + 2 in\n    loop (tab: *[n][n]t) = tab for i < n - len do\n      let j = i + len in\n      let c = {found} in\n      tab with [i, j] = c\n"
            f"  in if n < 2 then 0 else {g.c('tab[0, n - 1]', 't.sum (flatten tab)', 'tab[0, n - 1] + tab[0, 1]')}").replace("%i j", "\\i j")  # fmt: skip
    return g.program("intervals", [Param("x", ("n",))], [()], body)


def grid_paths(g: Gen) -> Program:
    """Cheapest paths through a grid in place: the grid itself becomes the table."""
    src = g.c("copy a", "map (map (\\z -> small z)) a", "copy a")
    cell = g.mix("grid[i, j]", "grid[i - 1, j]", "grid[i, j - 1]") if g.p(0.5) else f"grid[i, j] + {g.pick('grid[i - 1, j]', 'grid[i, j - 1]')}"
    body = (f"  let grid : *[n][m]t = {src} in\n"
            f"  let grid = loop (grid: *[n][m]t) = grid for i < n - 1 do (if m == 0 then grid else grid with [i + 1, 0] = {g.mix('grid[i, 0]', 'grid[i + 1, 0]')}) in\n"
            f"  let grid = loop (grid: *[n][m]t) = grid for j < m - 1 do (if n == 0 then grid else grid with [0, j + 1] = {g.mix('grid[0, j]', 'grid[0, j + 1]')}) in\n"
            f"  loop (grid: *[n][m]t) = grid for p < n - 1 do\n    loop (grid: *[n][m]t) = grid for q < m - 1 do\n      let i = p + 1 in let j = q + 1 in grid with [i, j] = {cell}")  # fmt: skip
    return g.program("grid_paths", [Param("a", ("n", "m"))], [("n", "m")], body)


FAMILIES = [two_rows, swapped_rows, one_row, table, diagonals, paths, intervals, grid_paths]
