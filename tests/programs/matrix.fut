-- Nested maps and reductions: products of matrices and vectors, transposition, the trace.
-- ==
-- input { [[1.0, 2.0], [3.0, 4.0]] [[5.0, 6.0], [7.0, 8.0]] }
-- output { [[19.0, 22.0], [43.0, 50.0]] [3.0, 7.0] 5.0 [[1.0, 3.0], [2.0, 4.0]] [[5.0, 10.0], [15.0, 20.0]] }
-- input { empty([0][0]f64) empty([0][0]f64) }
-- output { empty([0][0]f64) empty([0]f64) 0.0 empty([0][0]f64) empty([0][0]f64) }
def dot xs ys = f64.sum (map2 (*) xs ys)

def matmul [n][m][k] (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  map (\row -> map (dot row) (transpose b)) a

entry main [n] (a: [n][n]f64) (b: [n][n]f64) =
  ( matmul a b
  , map f64.sum a
  , f64.sum (tabulate n (\i -> a[i, i]))
  , transpose a
  , map (map (* 5)) a
  )
