-- Loops that one block of a device runs: an entry for each condition.

-- Sizes change places.
entry lengths [n][m][l] (xs: [n]f64) (ys: [m]f64) (zs: [l]f64): (f64, []f64) =
  let (xs: []f64, ys: []f64, s) = loop (xs: []f64, ys: []f64, s) = (xs, ys, 0) for _i < l do
    (ys, xs, f64.sum (map (+ s) zs))
  in (s + f64.sum xs + 2 * f64.sum ys, ys)
-- Each variable becomes the other one; which memory each is in at the end only the block knows.
entry exchanged [n] (xs: [n]f64) (ys: [n]f64): ([n]f64, [n]f64, f64) =
  loop (a, b, s) = (xs, ys, 0) for i < n do
    (b, map2 (\p q -> p * 0.5 + q + f64.i64 i) a b, s + f64.maximum a)
-- All threads read an element that the first one then overwrites.
entry read_by_all [n] (xs: [n]i64): [n]i64 =
  loop xs = map (% 100) xs for i < n do
    let ys = scan (+) i xs
    let y = ys[0]
    let ys = ys with [0] = i
    in map (\v -> (v * y + 1) % 1000) ys
