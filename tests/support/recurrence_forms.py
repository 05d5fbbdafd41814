# ruff: noqa: E501 (programs read better unbroken)
"""Recurrences in layers and dynamic programs, each in Futhark and, for `duals`, in plain Python.

A form is the Futhark function, the shapes of its arguments for some sizes, the same function in Python over
arrays of dual numbers, and the shapes of its results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.duals import cos, exp, greatest, least, log, logistic, sin, softmin, sqrt, tanh, zeros

Shape = tuple[Any, ...]  # of names of sizes, sums of them ('l+l'), and numbers


@dataclass(frozen=True)
class Form:
    name: str
    params: tuple[tuple[str, Shape], ...]
    results: tuple[Shape, ...]
    body: str
    python: Callable[..., Any]

    def shapes(self, which: tuple[Shape, ...], sizes: dict[str, int]) -> list[tuple[int, ...]]:
        return [tuple(eval(str(d), {}, sizes) for d in s) for s in which]

    def source(self) -> str:
        """The function, and its value and gradient as entries."""
        names = [d for _, s in self.params for d in s if isinstance(d, str) and d.isalpha()]
        sizes = "".join(f" [{d}]" for d in dict.fromkeys(names))
        xs = " ".join(f"({p}: {_type(s)})" for p, s in self.params)
        ys = " ".join(f"(y{i}: {_type(s)})" for i, s in enumerate(self.results))
        ret = _tuple([_type(s) for s in self.results])
        point = _tuple([p for p, _ in self.params])
        call = " ".join(p for p, _ in self.params)
        seeds = _tuple([f"y{i}" for i in range(len(self.results))])
        return (
            f"def {self.name}{sizes} {xs} : {ret} =\n{self.body}\n"
            f"entry {self.name}_value{sizes} {xs} = {self.name} {call}\n"
            f"entry {self.name}_grad{sizes} {xs} {ys} = vjp (\\{point} -> {self.name} {call}) {point} {seeds}\n"
        )


def _type(shape: Shape) -> str:
    return "".join(f"[{d}]" for d in shape) + "f64"


def _tuple(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _gates(w: Any, u: Any, x: Any, h: Any) -> list[Any]:
    return [w[k].dot(x) + u[k].dot(h) for k in range(len(w))]


def _cell(w: Any, u: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    i, f, o, g = _gates(w, u, x, h)
    new = logistic(f) * c + logistic(i) * tanh(g)
    return logistic(o) * tanh(new), new


def _lstm(w: Any, u: Any, x: Any) -> Any:
    layers, _, d, _ = w.shape
    h, c = zeros(layers, d), zeros(layers, d)
    for t in range(len(x)):
        for j in range(layers):
            h[j], c[j] = _cell(w[j], u[j], x[t] if j == 0 else h[j - 1], h[j].copy(), c[j].copy())
    return h, c


def _rnn(w: Any, x: Any, s: Any) -> Any:
    layers, d = s.shape
    h, out = s.copy(), zeros(len(x), d)
    for t in range(len(x)):
        for j in range(layers):
            h[j] = tanh(w[j] * (x[t] if j == 0 else h[j - 1]) + h[j] * 0.7)
        out[t] = h[layers - 1].copy()
    return h, out


def _gru(w: Any, u: Any, x: Any) -> Any:
    layers, _, d, _ = w.shape
    h = zeros(layers, d)
    for t in range(len(x)):
        for j in range(layers):
            v, old = x[t] if j == 0 else h[j - 1], h[j].copy()
            z, r = logistic(w[j, 0].dot(v) + u[j, 0].dot(old)), logistic(w[j, 1].dot(v) + u[j, 1].dot(old))
            n = tanh(w[j, 2].dot(v) + u[j, 2].dot(r * old))
            h[j] = z * old + (1 - z) * n
    return h


def _twice(x: Any) -> Any:
    n, d = x.shape
    a, b = zeros(n, d) + 1, zeros(n, d) + 2
    for j in range(n):
        v = sin(x[j])
        a[j], b[n - 1 - j] = v.copy(), v.copy()
    return a, b


def _clock(x: Any, w: Any) -> Any:
    n, d = x.shape
    h, k = w.copy(), len(w)
    for t in range(n):
        for j in range(k):
            v = tanh(x[t] * w[j] + h[(j + k - 1) % k])
            h[j] = v * 0.5 + h[j] * 0.5
    return h


_LSTM = """
    let g = map (\\q -> map2 (+) (mv w[j, q] v) (mv u[j, q] {h})) (iota 4)
    let cv = map4 (\\f c i g -> sigm f * c + sigm i * f64.tanh g) g[1] {c} g[0] g[3]
    let hv = map2 (\\o c -> sigm o * f64.tanh c) g[2] cv
"""
W: Shape = ("l", 4, "d", "d")
HEAD = """
def sigm (x: f64) : f64 = 1 / (1 + f64.exp (-x))
def mv [a][b] (m: [a][b]f64) (v: [b]f64) : [a]f64 = map (\\r -> f64.sum (map2 (*) r v)) m
def softmin (a: f64) (b: f64) : f64 = let m = f64.min a b in m - f64.log (f64.exp (m - a) + f64.exp (m - b))
"""

LAYERED = [
    Form(
        "lstm",
        (("w", W), ("u", W), ("x", ("n", "d"))),
        (("l", "d"), ("l", "d")),
        """  loop (h: *[l][d]f64, c: *[l][d]f64) = (replicate l (replicate d 0), replicate l (replicate d 0)) for t < n do
  loop (h: *[l][d]f64, c: *[l][d]f64) = (h, c) for j < l do
    let v = (if j == 0 then copy x[t] else copy h[j - 1]) :> [d]f64"""
        + _LSTM.format(h="h[j]", c="c[j]")
        + "    in (h with [j] = hv, c with [j] = cv)",
        _lstm,
    ),
    Form(
        "lstm_packed",
        (("w", W), ("u", W), ("x", ("n", "d"))),
        (("l", "d"), ("l", "d")),
        """  let s : [l + l][d]f64 = loop (s: *[l + l][d]f64) = replicate (l + l) (replicate d 0) for t < n do
  loop (s: *[l + l][d]f64) = s for j < l do
    let v = (if j == 0 then copy x[t] else copy s[j - 1]) :> [d]f64"""
        + _LSTM.format(h="s[j]", c="s[l + j]")
        + """    in s with [j] = hv with [l + j] = cv
  in (s[:l] :> [l][d]f64, s[l:] :> [l][d]f64)""",
        _lstm,
    ),
    Form(
        "lstm_planes",
        (("w", W), ("u", W), ("x", ("n", "d"))),
        (("l", "d"), ("l", "d")),
        """  let s : [l][2][d]f64 = loop (s: *[l][2][d]f64) = replicate l (replicate 2 (replicate d 0)) for t < n do
  loop (s: *[l][2][d]f64) = s for j < l do
    let v = (if j == 0 then copy x[t] else copy s[j - 1, 0]) :> [d]f64"""
        + _LSTM.format(h="s[j, 0]", c="s[j, 1]")
        + """    let s = s with [j, 1] = cv
    in s with [j, 0] = hv
  in (s[:, 0], s[:, 1])""",
        _lstm,
    ),
    Form(
        "lstm_flat",
        (("w", W), ("u", W), ("x", ("n", "d"))),
        (("l", "d"), ("l", "d")),
        """  let s : [2 * l * d]f64 = loop (s: *[2 * l * d]f64) = replicate (2 * l * d) 0 for t < n do
  loop (s: *[2 * l * d]f64) = s for j < l do
    let v = (if j == 0 then copy x[t] else copy s[(j - 1) * d:j * d]) :> [d]f64
    let ho = s[j * d:(j + 1) * d] :> [d]f64
    let co = s[(l + j) * d:(l + j + 1) * d] :> [d]f64"""
        + _LSTM.format(h="ho", c="co")
        + """    in s with [j * d:(j + 1) * d] = hv with [(l + j) * d:(l + j + 1) * d] = cv
  in (unflatten (s[:l * d] :> [l * d]f64), unflatten (s[l * d:] :> [l * d]f64))""",
        _lstm,
    ),
    Form(
        "rnn_history",
        (("w", ("l", "d")), ("x", ("n", "d")), ("s", ("l", "d"))),
        (("l", "d"), ("n", "d")),
        """  loop (h: *[l][d]f64, ys: *[n][d]f64) = (copy s, replicate n (replicate d 0)) for t < n do
    let h : *[l][d]f64 = loop (h: *[l][d]f64) = h for j < l do
      let v = (if j == 0 then copy x[t] else copy h[j - 1]) :> [d]f64
      in h with [j] = map3 (\\a b c -> f64.tanh (a * b + c * 0.7)) w[j] v h[j]
    let row = copy h[l - 1]
    in (h, ys with [t] = row)""",
        _rnn,
    ),
    Form(
        "gru",
        (("w", ("l", 3, "d", "d")), ("u", ("l", 3, "d", "d")), ("x", ("n", "d"))),
        (("l", "d"),),
        """  loop (h: *[l][d]f64) = replicate l (replicate d 0) for t < n do
  loop (h: *[l][d]f64) = h for j < l do
    let v = (if j == 0 then copy x[t] else copy h[j - 1]) :> [d]f64
    let z = map sigm (map2 (+) (mv w[j, 0] v) (mv u[j, 0] h[j]))
    let r = map sigm (map2 (+) (mv w[j, 1] v) (mv u[j, 1] h[j]))
    let n = map f64.tanh (map2 (+) (mv w[j, 2] v) (mv u[j, 2] (map2 (*) r h[j])))
    let new = map3 (\\z h n -> z * h + (1 - z) * n) z h[j] n
    in h with [j] = new""",
        _gru,
    ),
    Form(
        "two_arrays",
        (("x", ("l", "d")),),
        (("l", "d"), ("l", "d")),
        """  loop (a: *[l][d]f64, b: *[l][d]f64) = (replicate l (replicate d 1), replicate l (replicate d 2)) for j < l do
    let v = map f64.sin x[j]
    in (a with [j] = v, b with [l - 1 - j] = v)""",
        _twice,
    ),
    Form(
        "clockwork",
        (("x", ("n", "d")), ("w", ("l", "d"))),
        (("l", "d"),),
        """  loop (h: *[l][d]f64) = copy w for t < n do
  loop (h: *[l][d]f64) = h for j < l do
    let v = map3 (\\a b c -> f64.tanh (a * b + c)) x[t] w[j] h[(j + l - 1) % l]
    let new = map2 (\\p q -> p * 0.5 + q * 0.5) v h[j]
    in h with [j] = new""",
        _clock,
    ),
]


# -- dynamic programs


def _two_rows(cell: Callable[..., Any], edge: Callable[[int], float], start: Callable[[int], float]) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        prev = [start(j) for j in range(len(y) + 1)]
        for i in range(len(x)):
            row = [edge(i)] + [0.0] * len(y)
            for j in range(len(y)):
                row[j + 1] = cell(x[i], y[j], prev[j + 1], row[j], prev[j])
            prev = row
        return prev[len(y)]

    return run


def _rows(name: str, cell: str, python: Callable[..., Any], edge: str, start: str, pedge: Any, pstart: Any) -> Form:
    """A table by two rows: `cell` is made of a, b (what is compared), up, left, diag."""
    body = f"""  let last : [m + 1]f64 = loop (prev: [m + 1]f64) = tabulate (m + 1) (\\j -> {start}) for i < n do
    let row : *[m + 1]f64 = replicate (m + 1) 0 with [0] = {edge}
    in loop (row: *[m + 1]f64) = row for j < m do
      let (a, b, up, left, diag) = (x[i], y[j], prev[j + 1], row[j], prev[j])
      in row with [j + 1] = {cell}
  in last[m]"""
    return Form(name, (("x", ("n",)), ("y", ("m",))), ((),), body, _two_rows(python, pedge, pstart))


def _local(x: Any, y: Any) -> Any:
    n, m = len(x), len(y)
    tab, best = zeros(n + 1, m + 1), 0.0
    for i in range(n):
        for j in range(m):
            s = 1.2 - (x[i] - y[j]) * (x[i] - y[j])
            tab[i + 1, j + 1] = greatest(0.0, tab[i, j] + s, tab[i, j + 1] - 0.4, tab[i + 1, j] - 0.3)
            best = greatest(best, tab[i + 1, j + 1])
    return best


def _gotoh(x: Any, y: Any) -> Any:
    n, m = len(x), len(y)
    big = 50.0
    prev = [(0.3 * j, big, big) for j in range(m + 1)]
    for i in range(n):
        row = [(0.3 * (i + 1), big, big)]
        for j in range(m):
            gap_x = least(prev[j + 1][0] + 0.9, prev[j + 1][1] + 0.2)
            gap_y = least(row[j][0] + 0.8, row[j][2] + 0.25)
            row.append((least(prev[j][0] + (x[i] - y[j]) * (x[i] - y[j]), gap_x, gap_y), gap_x, gap_y))
        prev = row
    return prev[m][0]


def _knapsack(v: Any, r: Any) -> Any:
    row = r.copy()
    for i in range(len(v)):
        for c in range(len(row) - 1, i % 3, -1):
            row[c] = greatest(row[c], row[c - 1 - i % 3] + v[i])
    return row


def _coins(v: Any, r: Any) -> Any:
    row = r.copy()
    for i in range(len(v)):
        for c in range(i % 3 + 1, len(row)):
            row[c] = row[c] + 0.5 * sin(row[c - 1 - i % 3] * v[i])
    return row


def _viterbi(e: Any, t: Any) -> Any:
    v = e[0].copy()
    for i in range(1, len(e)):
        v = np.array([greatest(*[v[a] + t[a, b] for a in range(len(t))]) + e[i, b] for b in range(len(t))], object)
    return greatest(*v)


def _forward(e: Any, t: Any) -> Any:
    v, h = zeros(len(t)), zeros(*e.shape)
    for i in range(len(e)):
        new = zeros(len(t))
        for b in range(len(t)):
            total = 0.0
            for a in range(len(t)):
                total = total + exp(v[a] * 0.3 + t[a, b])
            new[b] = log(total) + e[i, b]
        v = new
        h[i] = v.copy()
    return h


def _chain(x: Any) -> Any:
    n = len(x)
    tab = zeros(n, n)
    for size in range(2, n):
        for i in range(n - size):
            j = i + size
            tab[i, j] = least(*[tab[i, k] + tab[k, j] + x[i] * x[k] * x[j] for k in range(i + 1, j)])
    return tab[0, n - 1]


def _tree(x: Any) -> Any:
    n = len(x)
    tab = zeros(n + 1, n + 1)
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            total = x[i]
            for k in range(i + 1, i + size):
                total = total + x[k]
            best = tab[i, i] + tab[i + 1, i + size]
            for k in range(i + 1, i + size):
                best = softmin(best, tab[i, k] + tab[k + 1, i + size])
            tab[i, i + size] = best + total
    return tab[0, n]


def _lis(x: Any) -> Any:
    best = zeros(len(x))
    for i in range(len(x)):
        top = 0.0
        for j in range(i):
            if x[j] < x[i]:
                top = greatest(top, best[j])
        best[i] = top + x[i] * x[i] + 0.1
    return best


def _grid(a: Any) -> Any:
    n, m = a.shape
    g = a.copy()
    for j in range(1, m):
        g[0, j] = g[0, j] + g[0, j - 1]
    for i in range(1, n):
        g[i, 0] = g[i, 0] + g[i - 1, 0]
        for j in range(1, m):
            g[i, j] = g[i, j] + least(g[i - 1, j], g[i, j - 1])
    return g


def _floyd(a: Any) -> Any:
    n = len(a)
    d = a * a + 0.1
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = least(d[i, j], d[i, k] + d[k, j])
    return d


def _bellman(a: Any) -> Any:
    n = len(a)
    d = zeros(n) + 9
    d[0] = d[0] * 0
    for _ in range(n):
        for i in range(n):
            for j in range(n):
                d[j] = softmin(d[j], d[i] + a[i, j] * a[i, j])
    return d


def _rod(p: Any) -> Any:
    n = len(p)
    best = zeros(n + 1)
    for i in range(1, n + 1):
        best[i] = greatest(*[p[k] + best[i - 1 - k] for k in range(i)])
    return best


def _fibonacci(x: Any) -> Any:
    a, b = 0.3, 0.7
    out = zeros(len(x))
    for i in range(len(x)):
        a, b = b, sin(a * x[i]) + 0.5 * b
        out[i] = b * cos(a * x[0])
    return out


def _cyk(x: Any) -> Any:
    n, _ = x.shape
    tab = zeros(n, n, 2)
    for i in range(n):
        tab[i, i, 0], tab[i, i, 1] = x[i, 0], x[i, 1]
    for size in range(1, n):
        for i in range(n - size):
            j = i + size
            p, q = 0.0, 0.0
            for k in range(i, j):
                p = p + tab[i, k, 0] * tab[k + 1, j, 1] * 0.5
                z = tab[i, k, 1] * tab[k + 1, j, 1]
                q = q + sqrt(1 + z * z) * 0.3
            tab[i, j, 0], tab[i, j, 1] = p, tanh(q + p)
    return tab[0, n - 1, 0] + tab[0, n - 1, 1]


X1: tuple[tuple[str, Shape], ...] = (("x", ("n",)),)
ET: tuple[tuple[str, Shape], ...] = (("e", ("n", "m")), ("t", ("m", "m")))

DYNAMIC = [
    _rows("edit", "f64.min (f64.min (up + 1) (left + 1)) (diag + (a - b) * (a - b))",
          lambda a, b, up, left, diag: least(up + 1, left + 1, diag + (a - b) * (a - b)),
          "f64.i64 (i + 1)", "f64.i64 j", lambda i: i + 1.0, lambda j: float(j)),
    _rows("soft_edit", "softmin (softmin (up + 0.6) (left + 0.7)) (diag + (a - b) * (a - b))",
          lambda a, b, up, left, diag: softmin(softmin(up + 0.6, left + 0.7), diag + (a - b) * (a - b)),
          "f64.i64 (i + 1)", "f64.i64 j", lambda i: i + 1.0, lambda j: float(j)),
    _rows("lcs", "f64.max (f64.max up left) (diag + f64.exp (-((a - b) * (a - b))))",
          lambda a, b, up, left, diag: greatest(up, left, diag + exp(-((a - b) * (a - b)))),
          "0", "0", lambda i: 0.0, lambda j: 0.0),
    _rows("dtw", "(a - b) * (a - b) + f64.min (f64.min up left) diag",
          lambda a, b, up, left, diag: (a - b) * (a - b) + least(up, left, diag),
          "90", "if j == 0 then 0 else 100", lambda i: 90.0, lambda j: 100.0 if j else 0.0),
    _rows("soft_dtw", "(a - b) * (a - b) + softmin (softmin up left) diag",
          lambda a, b, up, left, diag: (a - b) * (a - b) + softmin(softmin(up, left), diag),
          "20", "if j == 0 then 0 else 20", lambda i: 20.0, lambda j: 20.0 if j else 0.0),
    _rows("smooth_rows", "f64.sin (up + left * a) + diag * f64.cos b",
          lambda a, b, up, left, diag: sin(up + left * a) + diag * cos(b),
          "0.5", "0.1 * f64.i64 j", lambda i: 0.5, lambda j: 0.1 * j),
    Form("smith_waterman", (("x", ("n",)), ("y", ("m",))), ((),), """  let (_, best) =
   loop (tab: *[n + 1][m + 1]f64, best) = (replicate (n + 1) (replicate (m + 1) 0), 0) for i < n do
   loop (tab: *[n + 1][m + 1]f64, best) = (tab, best) for j < m do
    let s = 1.2 - (x[i] - y[j]) * (x[i] - y[j])
    let c = f64.max (f64.max 0 (tab[i, j] + s)) (f64.max (tab[i, j + 1] - 0.4) (tab[i + 1, j] - 0.3))
    in (tab with [i + 1, j + 1] = c, f64.max best c)
  in best""", _local),
    Form("gotoh", (("x", ("n",)), ("y", ("m",))), ((),), """  let (a, _, _) : ([m + 1]f64, [m + 1]f64, [m + 1]f64) =
   loop (a: [m + 1]f64, p: [m + 1]f64, q: [m + 1]f64) =
    (tabulate (m + 1) (\\j -> 0.3 * f64.i64 j), replicate (m + 1) 50, replicate (m + 1) 50) for i < n do
    let b : *[m + 1]f64 = replicate (m + 1) 0 with [0] = 0.3 * f64.i64 (i + 1)
    in loop (b: *[m + 1]f64, r: *[m + 1]f64, s: *[m + 1]f64) = (b, replicate (m + 1) 50, replicate (m + 1) 50) for j < m do
      let gx = f64.min (a[j + 1] + 0.9) (p[j + 1] + 0.2)
      let gy = f64.min (b[j] + 0.8) (s[j] + 0.25)
      let c = f64.min (f64.min (a[j] + (x[i] - y[j]) * (x[i] - y[j])) gx) gy
      in (b with [j + 1] = c, r with [j + 1] = gx, s with [j + 1] = gy)
  in a[m]""", _gotoh),
    Form("knapsack", (("x", ("n",)), ("r", ("m",))), (("m",),), """  loop (row: *[m]f64) = copy r for i < n do
  loop (row: *[m]f64) = row for q < m - 1 - i % 3 do
    let c = m - 1 - q in row with [c] = f64.max row[c] (row[c - 1 - i % 3] + x[i])""", _knapsack),
    Form("coins", (("x", ("n",)), ("r", ("m",))), (("m",),), """  loop (row: *[m]f64) = copy r for i < n do
  loop (row: *[m]f64) = row for q < m - 1 - i % 3 do
    let c = q + 1 + i % 3 in row with [c] = row[c] + 0.5 * f64.sin (row[c - 1 - i % 3] * x[i])""", _coins),
    Form("viterbi", ET, ((),), """  let v : [m]f64 = loop (v: [m]f64) = copy e[0] for i < n - 1 do
    tabulate m (\\b -> e[i + 1, b] + f64.maximum (map2 (+) v t[:, b]))
  in f64.maximum v""", _viterbi),
    Form("forward", ET, (("n", "m"),), """  (loop (v: [m]f64, h: *[n][m]f64) = (replicate m 0, replicate n (replicate m 0)) for i < n do
    let v = tabulate m (\\b -> e[i, b] + f64.log (f64.sum (map2 (\\p q -> f64.exp (p * 0.3 + q)) v t[:, b])))
    in (v, h with [i] = v)).1""", _forward),
    Form("matrix_chain", X1, ((),), """  let tab : [n][n]f64 = loop (tab: *[n][n]f64) = replicate n (replicate n 0) for s < n - 2 do
   loop (tab: *[n][n]f64) = tab for i < n - 2 - s do
    let j = i + s + 2
    let c = loop c = f64.inf for k < s + 1 do f64.min c (tab[i, i + 1 + k] + tab[i + 1 + k, j] + x[i] * x[i + 1 + k] * x[j])
    in tab with [i, j] = c
  in tab[0, n - 1]""", _chain),
    Form("search_tree", X1, ((),), """  let tab : [n + 1][n + 1]f64 =
   loop (tab: *[n + 1][n + 1]f64) = replicate (n + 1) (replicate (n + 1) 0) for s < n do
   loop (tab: *[n + 1][n + 1]f64) = tab for i < n - s do
    let j = i + s + 1
    let total = loop total = x[i] for k < s do total + x[i + 1 + k]
    let best = loop best = tab[i, i] + tab[i + 1, j] for k < s do softmin best (tab[i, i + 1 + k] + tab[i + 2 + k, j])
    in tab with [i, j] = best + total
  in tab[0, n]""", _tree),
    Form("increasing", X1, (("n",),), """  loop (best: *[n]f64) = replicate n 0 for i < n do
    let top = loop top = 0 for j < i do if x[j] < x[i] then f64.max top best[j] else top
    in best with [i] = top + x[i] * x[i] + 0.1""", _lis),
    Form("grid", (("x", ("n", "m")),), (("n", "m"),), """  let g = loop (g: *[n][m]f64) = copy x for j < m - 1 do g with [0, j + 1] = g[0, j + 1] + g[0, j]
  in loop (g: *[n][m]f64) = g for i < n - 1 do
    let g : *[n][m]f64 = g with [i + 1, 0] = g[i + 1, 0] + g[i, 0]
    in loop (g: *[n][m]f64) = g for j < m - 1 do
      g with [i + 1, j + 1] = g[i + 1, j + 1] + f64.min g[i, j + 1] g[i + 1, j]""", _grid),
    Form("floyd", (("x", ("n", "n")),), (("n", "n"),), """  loop (d: *[n][n]f64) = map (map (\\z -> z * z + 0.1)) x for k < n do
  loop (d: *[n][n]f64) = d for i < n do
  loop (d: *[n][n]f64) = d for j < n do d with [i, j] = f64.min d[i, j] (d[i, k] + d[k, j])""", _floyd),
    Form("bellman", (("x", ("n", "n")),), (("n",),), """  loop (d: *[n]f64) = replicate n 9 with [0] = 0 for _r < n do
  loop (d: *[n]f64) = d for i < n do
  loop (d: *[n]f64) = d for j < n do d with [j] = softmin d[j] (d[i] + x[i, j] * x[i, j])""", _bellman),
    Form("rod", X1, (("n+1",),), """  loop (best: *[n + 1]f64) = replicate (n + 1) 0 for i < n do
    let top = loop top = x[0] + best[i] for k < i do f64.max top (x[k + 1] + best[i - 1 - k])
    in best with [i + 1] = top""", _rod),
    Form("fibonacci", X1, (("n",),), """  (loop (a, b, out: *[n]f64) = (0.3, 0.7, replicate n 0) for i < n do
    let c = f64.sin (a * x[i]) + 0.5 * b
    in (b, c, out with [i] = c * f64.cos (b * x[0]))).2""", _fibonacci),
    Form("cyk", (("x", ("n", 2)),), ((),), """  let tab : *[n][n][2]f64 = replicate n (replicate n (replicate 2 0))
  let tab = loop (tab: *[n][n][2]f64) = tab for i < n do tab with [i, i] = copy x[i]
  let tab : [n][n][2]f64 = loop (tab: *[n][n][2]f64) = tab for s < n - 1 do
   loop (tab: *[n][n][2]f64) = tab for i < n - 1 - s do
    let j = i + s + 1
    let (p, q) = loop (p, q) = (0, 0) for r < s + 1 do
      let k = i + r
      in (p + tab[i, k, 0] * tab[k + 1, j, 1] * 0.5, q + f64.sqrt (1 + (tab[i, k, 1] * tab[k + 1, j, 1]) ** 2) * 0.3)
    in tab with [i, j, 0] = p with [i, j, 1] = f64.tanh (q + p)
  in tab[0, n - 1, 0] + tab[0, n - 1, 1]""", _cyk),
]  # fmt: skip
