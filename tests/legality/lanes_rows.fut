-- Nests over all elements of matrices, as one loop: rows of the transposition are apart; sums of each row's number; sums
-- of rows that begin with one; rows that overlap.
entry transposed [n][m] (x: [n][m]f64) : f64 =
  f64.sum (map (\column -> f64.sum (map f64.sqrt column)) (transpose x))

entry weighted [n][m] (x: [n][m]f64) : f64 =
  f64.sum (map2 (\row i -> f64.sum (map (\v -> v * f64.i64 i) row)) x (iota n))

entry from_one [n][m] (x: [n][m]f64) : f64 =
  reduce (+) 0 (map (\row -> reduce (+) 1 row) x)

entry windows [n] (x: [n]f64) : f64 =
  f64.sum (tabulate (n - n / 2) (\i -> f64.sum (tabulate (n / 2) (\j -> x[i + j]))))
