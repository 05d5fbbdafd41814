"""Functions of nested and successive loops, `f (l: i64) (x: [4]f64)`, each with numbers l to run it with."""

HEAD = """
def step (a: f64) (x: [4]f64) : [4]f64 = map2 (\\p q -> 0.9 * f64.sin (p + a) + 0.05 * q * p) x (reverse x)
"""

PROGRAMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "two_deep": ("loop x for i < l do loop x for j < (i * 7 + 3) % 5 do step (f64.i64 (i + j)) x", (0, 1, 6)),
    "empty_inside": ("loop x for i < l do loop x for _j < (i % 3) * (i % 2) do step 0.1 x", (0, 1, 2, 9)),
    "in_sequence": (
        """let y = loop x for i < l do step (f64.i64 i) x
           let s = f64.sum y
           let z = loop z = map (* s) x for i < l + 1 do map2 (+) (step s z) y
           in map2 (*) y z""",
        (0, 1, 5),
    ),
    "from_one_array": (
        """let y = loop y = x for _i < l do step 0.2 y
           let z = loop z = x for _i < l do step 0.3 (map2 (+) y z)
           in map2 (-) x (map2 (*) y z)""",
        (0, 3),
    ),
    "in_a_branch": (
        """loop x for i < l do
             if x[0] > 0.1 || i % 3 == 1 then loop x for j < i do step (f64.i64 j) x
             else map (* 0.8) x""",
        (0, 1, 7),
    ),
    "branch_of_two": (
        """let y = if x[0] < 0.2 then loop x for i < l do step 0.1 x else loop x for i < 2 * l do step 0.3 x
           in loop y for i < l do (if i % 2 == 0 then loop y for _j < i do step 0.2 y else step 1 y)""",
        (0, 4),
    ),
    "while_in_for_in_while": (
        """(loop (x, i) = (x, 0) while i < l && x[1] < 50 do
             let y = loop y = x for j < i + 1 do
               (loop (y, k) = (y, 0) while k < j && y[2] < 9 do (step (f64.i64 k) y, k + 1)).0
             in (map2 (\\a b -> a - 0.1 * b) x y, i + 1)).0""",
        (0, 1, 4),
    ),
    "three_deep": (
        """loop x for i < l do
             let y = loop y = x for j < i do
               let z = loop z = y for k < j + 1 do step (f64.i64 (i * k)) z
               in map2 (+) z (map (* 0.5) y)
             in map2 (\\a b -> a * 0.5 + 0.25 * b) x y""",
        (0, 1, 4),
    ),
    "sizes_inside": (
        """loop x for i < l do
             let ys = tabulate (i % 3 + 1) (\\k -> x[k] * 0.7)
             let ys = loop ys for j < i do map (\\y -> f64.cos y + 0.1 * x[j % 4]) ys
             in map (\\p -> p * 0.5 + 0.2 * f64.sum ys) x""",
        (0, 1, 5),
    ),
    "growing": (
        """let ys = loop ys: []f64 = x for i < l do
             let ys = ys ++ [f64.sum ys * 0.1]
             in loop ys for j < i do map (\\y -> 0.9 * f64.sin (y + f64.i64 j)) ys
           in map (\\p -> p * f64.sum ys) x""",
        (0, 1, 4),
    ),
    "two_that_grow": (
        """let (ys, zs) = loop (ys, zs) : ([]f64, []f64) = (x, [x[0]]) for i < l do
             let zs = loop zs for j < i % 3 do zs ++ [ys[j] * 0.5]
             in (map (* 0.5) zs ++ [ys[0]], map (+ 0.1) ys)
           in map (\\p -> p * f64.sum ys - f64.sum zs) x""",
        (0, 1, 5),
    ),
    "updates": (
        """loop x = copy x for i < l do
             let x = loop x for j < (i * 3) % 4 do x with [j] = f64.sin (x[(j + i) % 4]) * 0.8
             in x with [i % 4] = x[(i + 1) % 4] * 1.1""",
        (0, 1, 6),
    ),
    "rows": (
        """let m = tabulate_2d 5 4 (\\i j -> x[j] * f64.i64 (i + 1) * 0.2)
           let m = loop m for i < l do
             let row = copy m[i % 5]
             let row = loop row for _j < i do step 0.3 row
             in m with [(i + 1) % 5] = row
           in map f64.sum (transpose m)""",
        (0, 1, 5),
    ),
    "views": (
        """let m = loop m = tabulate_2d 5 4 (\\i j -> x[j] * f64.i64 (i + 1) * 0.2) for i < l do
             let row = m[i % 5]
             let y = loop y = row for _j < i do map2 (\\a b -> f64.sin a + 0.1 * b) y row
             in tabulate_2d 5 4 (\\p q -> m[p, q] * 0.5 + y[q])
           in m[1]""",
        (0, 1, 5),
    ),
    "swapped": (
        """(loop (x, y) = (x, map (+ 1) x) for i < l do
             if i % 2 == 0 then (y, x) else loop (x, y) for _j < i do (y, step 0.1 x)).0""",
        (0, 1, 6),
    ),
    "overwritten_between": (
        """let y = map (* 2) x
           let z = loop z = x for i < l do step 0.2 z
           let y = y with [1] = z[0]
           let z = loop z for i < l do map2 (\\a b -> a * 0.5 + b * 0.1) (step 0.1 z) y
           in map2 (+) y z""",
        (0, 3),
    ),
    "scalars": (
        """let far r a = f64.abs (r * r - a) > 1e-3
           let root a = (loop (r, k) = (a, 0i64) while k < 20 && far r a do ((r + a / r) / 2, k + 1)).0
           let s = loop s = 1.0 for i < 12 * l do root (1 + s * s + x[i % 4] * x[i % 4]) * 0.7
           let t = loop t = s for i < 150 * l do t * 0.999 + 0.001 * f64.sin (x[i % 4] + t)
           in map (* t) x""",
        (0, 1, 2),
    ),
    "small_indices": (
        """let s = loop s = x[0] for i < i8.i64 (l * 25) do s * 0.99 + 0.1 * f64.sin s * f64.i8 i
           in loop x for i < u8.i64 l do loop x for j < i do step (s + f64.u8 j) x""",
        (0, 5),
    ),
    "checked": (
        """loop x for i < l do
             loop x for j < (i * 5) % 4 do
               let y = assert (x[j] < 1e6) (step (f64.i64 j) x)
               in trace (map (* 0.9) y)""",
        (0, 1, 4),
    ),
}


def function(name: str) -> str:
    """The text of the function, an entry, and that of its derivative, `gradient l x v`."""
    return (
        f"{HEAD}\nentry f (l: i64) (x: [4]f64) : [4]f64 =\n  {PROGRAMS[name][0]}\n"
        "entry gradient (l: i64) (x: [4]f64) (v: [4]f64) : ([4]f64, [4]f64) = vjp2 (f l) x v\n"
    )
