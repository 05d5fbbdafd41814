-- Programs that tempt additions to neighbouring places to be gathered place by place.

-- Both axes move with one of the two maps: all iterations of the other one add to one place.
entry diagonal [n] (x: [n][n]f64) (a: [n]f64): [n][n]f64 =
  vjp (\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) n (\i j -> f64.exp (a[j] * x[i + 1, i]) * x[i + 2, i])))) x 1

-- Whether an iteration adds hangs on what it reads.
entry chosen [n][m] (x: [n][m]f64) (a: [n][m]f64): [n][m]f64 =
  vjp (\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) m (\i j ->
    (if a[i, j] > 0 then x[i + 1, j] else 0) + 2 * x[i + 2, j])))) x 1
