-- A softmax regression's step: a sum of products of a residual that is computed and an element read by columns.
-- ==
-- entry: step
-- input { [[0.5, -1.0], [0.0, 2.0]] [[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]] [0i64, 1i64, 0i64] }
-- output { [[-2.495929862284104, -3.1944338513906407], [2.495929862284104, 3.1944338513906407]] }
entry step [c][d][n] (w: [c][d]f64) (x: [n][d]f64) (y: [n]i64): [c][d]f64 =
  let soft s = let m = f64.maximum s
               let e = map (\v -> f64.exp (v - m)) s
               let z = f64.sum e
               in map (/ z) e
  let ps = map (\r -> soft (map (\row -> f64.sum (map2 (*) row r)) w)) x
  in tabulate_2d c d (\a b -> f64.sum (map (\i -> (ps[i, a] - if y[i] == a then 1 else 0) * x[i, b]) (iota n)))
