-- What must hold for maps to read what others have computed, or to compute it again: an entry for each condition
-- (tests/optimise/test_element_cut.py).

-- The earlier results have another first element by then.
entry overwritten [n][m] (xs: [n][m]f64): [n]f64 =
  loop sums = replicate n 0 for _i < 2 do
    map2 (\sum row ->
      let es = map f64.exp row
      let first = f64.sum es
      let es[0] = first
      let twice = map (\x -> first * f64.exp x) row
      in sum + twice[0] + f64.sum (map2 (*) es twice)) sums xs

-- An element of one map is read by the inner one of two, in each iteration of the outer one.
entry other_level [n] (xs: [n]f64): [n][n]f64 =
  loop rows = replicate n xs for _i < 2 do
    let es = map (\x -> f64.exp (x / 9)) rows[0]
    let s = f64.sum (scan (+) 0 es)
    in map2 (\d row -> let c = f64.sin (s + d) in map2 (\y e -> f64.sin (s + e) - y * c) row es) es rows

-- The first failure is the division's.
entry first_failure [n] (xs: [n]i64) (ys: [n]i64): i64 =
  loop total = 0 for _i < 2 do
    let (qs, rs) = unzip (map2 (\x y -> let z = y + total in (100 / x + y, z * z)) xs ys)
    let s = i64.sum (scan (+) 0 rs)
    let t = assert (s > 9) s
    in total + i64.sum (map3 (\q x y -> (q - y) * t + x) qs xs ys)

-- Columns are folded by an operator, or from a value, of their own (tests/optimise/test_column_folds.py).
entry columns [n] [k] (xs: [n]f64) (ys: [k]f64): ([k]f64, [k]f64) =
  let m = map (\x -> map (\y -> f64.sin (x * y)) ys) xs
  in (map2 (\c y -> reduce (\a b -> a + b * y) 0 c) (transpose m) ys, map2 (\c y -> reduce f64.max y c) (transpose m) ys)

-- Pieces are put side by side, and read one below the other, too (tests/optimise/test_concat_axes.py).
entry read_otherwise [n][k][l] (a: [n][k]f64) (b: [n][l]f64): [][]f64 =
  let c = concat (transpose a) (transpose b)
  in map (\r -> map (* f64.sum (map f64.sum c)) r) (transpose c)
