-- Linear least squares (the objective `llsq_obj` of the benchmark suite cmpad): how far the polynomial with
-- coefficients x is from the sign function at n points spread evenly over [-1, 1]; half the sum of squares.

def polynomial [m] (x: [m]f64) (t: f64): f64 =
  loop y = 0 for j < m do y * t + x[m - 1 - j]

def objective [m] (n: i64) (x: [m]f64): f64 =
  let residual i = let t = -1 + 2 * f64.i64 i / f64.i64 (n - 1)
                   in f64.sgn t - polynomial x t
  in 0.5 * f64.sum (tabulate n (\i -> let r = residual i in r * r))

-- ==
-- entry: primal
-- input { [0.5, 2.0] 3i64 } output { 1.375 }
-- input { [0.0] 4i64 } output { 2.0 }
entry primal [m] (x: [m]f64) (n: i64): f64 = objective n x

-- ==
-- entry: gradient
-- input { [0.5, 2.0] 3i64 } output { [1.5, 2.0] }
-- input { [0.0] 4i64 } output { [0.0] }
entry gradient [m] (x: [m]f64) (n: i64): [m]f64 = vjp (objective n) x 1
