-- A histogram of pairs, and one of rows.
-- ==
-- input { [1i64, 0i64, 1i64] [5.0, 1.0, 7.0] }
-- output { [1.0, 7.0] [1i64, 2i64] [[1.0, 2.0], [12.0, 24.0]] }
entry main [n] (is: [n]i64) (xs: [n]f64) =
  let step (a: f64, i: i64) (b: f64, j: i64) = if b > a then (b, j) else (a, i)
  let (best, at) = unzip (hist step (f64.lowest, -1) 2 is (zip xs (iota n)))
  in (best, at, hist (map2 (+)) [0, 0] 2 is (map (\x -> [x, 2 * x]) xs))
