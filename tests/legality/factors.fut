-- Factors that are not computed before the nest around them: an entry for each condition.

entry fewer [n][m][k] (x: [k][n]f64) (y: [k][m]f64): [n][m]f64 =
  let sums = map (\r -> scan (+) 0 (r ++ [1])) y
  in tabulate_2d n m (\a b -> f64.sum (map2 (\r s -> f64.exp r[a] * s[b]) x sums))

-- ==
-- entry: failing
-- input { [[1.0, 2.0], [3.0, 4.0]] empty([2][0]f64) [7i64, 8i64] 0i64 }
-- output { empty([2][0]f64) }
entry failing [n][m][k] (x: [k][n]f64) (y: [k][m]f64) (c: [k]i64) (z: i64): [n][m]f64 =
  tabulate_2d n m (\a b -> f64.sum (map3 (\r s i -> (r[a] + f64.i64 (i / z)) * s[b]) x y c))
