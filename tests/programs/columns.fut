-- Statistics of the columns of a matrix that is made row by row: a batch's normalisation, logarithms of sums of
-- exponentials, sums; with gradients.

-- ==
-- entry: batch_norm
-- input { [[0.0, 0.0], [0.0, 0.0]] [1.0, 2.0] }
-- output { 0.0 }

-- ==
-- entry: log_sums
-- input { [[0.0, 1.0], [0.0, 1.0]] [1.0, -1.0] }
-- output { 1.3862943611198906 }

-- ==
-- entry: sums
-- input { [[1.0, 2.0], [3.0, 4.0]] [1.0, 0.0] }
-- output { 596.0 }

-- ==
-- entry: sums_gradient
-- input { [[1.0, 2.0], [3.0, 4.0]] [1.0, 0.0] }
-- output { [112.0, 240.0] }
-- input { empty([0][1]f64) [1.0] }
-- output { [0.0] }

def made [n][k] (x: [n][k]f64) (w: [k]f64): [n][k]f64 = map (\row -> map2 (\a b -> a * b + a * a) row w) x

def normal [n][k] (x: [n][k]f64) (w: [k]f64): f64 =
  let h = map (\row -> map2 (\a b -> f64.tanh (a * b)) row w) x
  let mean = map (\c -> f64.sum c / f64.i64 n) (transpose h)
  let var = map2 (\c m -> f64.sum (map (\v -> (v - m) ** 2) c) / f64.i64 n) (transpose h) mean
  in f64.sum (map (\row -> f64.sum (map3 (\v m s -> ((v - m) / f64.sqrt (s + 0.001)) ** 3) row mean var)) h)

def log_sum [n] (v: [n]f64): f64 =
  let top = f64.maximum v
  in top + f64.log (f64.sum (map (\u -> f64.exp (u - top)) v))

entry batch_norm [n][k] (x: [n][k]f64) (w: [k]f64): f64 = normal x w
entry batch_norm_gradient [n][k] (x: [n][k]f64) (w: [k]f64): [k]f64 = vjp (normal x) w 1

entry log_sums [n][k] (x: [n][k]f64) (w: [k]f64): f64 =
  f64.sum (map log_sum (transpose (map (\row -> map2 (\a b -> a * b + a) row w) x)))
entry log_sums_gradient [n][k] (x: [n][k]f64) (w: [k]f64): [k]f64 = vjp (log_sums x) w 1

entry sums [n][k] (x: [n][k]f64) (w: [k]f64): f64 = f64.sum (map (\c -> (f64.sum c) ** 2) (transpose (made x w)))
entry sums_gradient [n][k] (x: [n][k]f64) (w: [k]f64): [k]f64 = vjp (sums x) w 1
