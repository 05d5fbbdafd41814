"""Programs whose loops keep what they carry, and whose arrays have several layouts, compiled once for all tests."""

from __future__ import annotations

from tests.support.device_support import OnDevice

KEPT_SOURCE = """
def step [n] (xs: [n]f64): [n]f64 = map (\\x -> f64.sin x + 0.5 * x) xs

entry simple [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop xs for i < t do step xs)) xs 1

entry pair [n] (t: i64) (xs: [n]f64): ([n]f64, [n]f64) =
  let f (xs, ys) =
    let (xs, ys) = loop (xs, ys) for i < t do
      let new = map2 (\\x y -> f64.sin (x * y)) xs ys
      in (new, map2 (\\y z -> y * 0.5 + f64.cos z) ys new)
    in f64.sum xs + f64.sum ys
  in vjp f (xs, map (+ 1) xs) 1

-- The value before the last one is carried, too.
entry two_back [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop (xs, before) = (xs, xs) for i < t do
                         (map2 (\\x b -> f64.sin (x - b * 0.5)) xs before, xs)).0)
      xs 1

-- What is saved is written to in place.
entry consumed [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop xs = copy xs for i < t do
                         let y = f64.sin xs[i % n] in xs with [i % n] = y * xs[(i + 1) % n]))
      xs 1

-- The value of this iteration is read after the next one is made.
entry late [n] (t: i64) (xs: [n]f64): ([n]f64, f64) =
  vjp2 (\\xs -> (loop (xs, s) = (xs, 0) for i < t do
                  let new = step xs in (new, s + f64.sum (map2 (*) (map f64.cos new) xs))).1)
       xs 1 |> \\(s, xs') -> (xs', s)

entry kept [n] (t: i64) (xs: [n]f64): ([t][n]f64, [n]f64) =
  let (all, xs) = loop (all, xs) = (replicate t (replicate n 0), xs) for i < t do (all with [i] = copy xs, step xs)
  in (all, xs)

entry matrices [n] (t: i64) (xs: [n]f64): ([n][n]f64, [n]f64) =
  let a = map (\\x -> map (\\y -> f64.cos (x + 2 * y) / f64.i64 n) xs) xs
  let f (a: [n][n]f64, xs: [n]f64) =
    let times p q = map (\\row -> map (\\col -> f64.sum (map2 (*) row col)) (transpose q)) p
    let m = loop m = a for i < t do map2 (map2 (\\x y -> f64.sin x + y)) (times m a) a
    in f64.sum (map (\\row -> f64.sum (map2 (*) row xs)) m)
  in vjp f (a, xs) 1
"""

LAYOUT_SOURCE = """
def row (x: f64): [6]f64 = [x, x + 1, f64.sin x, x * x, 2 - x, 0.5 * x]
def horner [k] (r: [k]f64): f64 = loop s = 0 for i < k do s * 0.5 + r[i] * r[(i * 5) % k]

-- A row by each thread, returned by columns: made by columns.
entry columns [n] (xs: [n]f64): [6][n]f64 = transpose (map row xs)
entry flat [n] (xs: [n]f64): []f64 = flatten (transpose (map row xs))
entry planes [n][m] (xss: [n][m]f64): [6][n][m]f64 =
  map (map row) xss |> map transpose |> transpose
-- Made and read by a thread a row.
entry rows [n] (xs: [n]f64): ([n]f64, f64) =
  let rs = map row xs in (map horner rs, f64.sum (map horner rs))
-- Made by a thread a row, read by one an element.
entry elements [n] (xs: [n]f64): [6][6]f64 =
  let rs = map (\\x -> map (+ x) (row x)) xs
  in loop m = tabulate_2d 6 6 (\\i j -> f64.i64 (i - j)) for r in rs do
       map2 (\\x -> map2 (\\y z -> x * y + 0.5 * z) r) r m
-- Seen from two sides, put together, updated, carried by a loop.
entry both [n] (xs: [n]f64): ([n][6]f64, [6][n]f64) = let rs = map row xs in (rs, transpose rs)
entry joined [n] (xs: [n]f64): [][6]f64 = let rs = map row xs in concat rs (map (map (* 2)) rs)
entry reversed_ [n] (xs: [n]f64): [][6]f64 = let rs = map row xs in map (map (+ 1)) rs[::-1]
entry part [n] (xs: [n]f64): ([]f64, []f64) =
  let rs = map row xs in (map horner rs[1:], transpose rs |> map f64.sum)
entry updated [n] (xs: [n]f64): [n][6]f64 =
  let rs = map row xs in if n > 1 then rs with [1] = map (* 3) rs[0] else rs
entry carried [n] (t: i64) (xs: [n]f64): [6][n]f64 =
  let rs = loop rs = map row xs for _i < t do map (\\r -> map (+ horner r) (row r[2])) rs
  in transpose rs
entry product [n] (xs: [n]f64): [6][6]f64 =
  let rs = map row xs
  in map (\\a -> map (\\b -> f64.sum (map2 (*) a b)) (transpose rs)) (transpose rs)
entry gathered [n] (is: [n]i64) (xs: [n]f64): [n]f64 =
  let rs = map row xs in map (\\i -> horner rs[i % n]) is
entry slope [n] (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (map (map horner) (map (map row) (unflatten (xs :> [n * 1]f64))) |> map f64.sum)) xs 1
"""

KEPT = OnDevice(KEPT_SOURCE, "history.fut", check=True)
LAYOUTS = OnDevice(LAYOUT_SOURCE, "layouts.fut", check=True)
