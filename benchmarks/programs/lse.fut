-- The logarithm of a sum of exponentials, kept in range by the largest term; its gradient is the softmax.

-- `top` may be anything: the result does not depend on it, so neither does the derivative.
def shifted [n] (top: f64) (x: [n]f64): f64 =
  top + f64.log (f64.sum (map (\a -> f64.exp (a - top)) x))

-- ==
-- entry: primal
-- input { [0.0, 0.0, 0.0, 0.0] } output { 1.3862943611198906 }
-- input { [1000.0, 1000.0] } output { 1000.6931471805599 }
entry primal [n] (x: [n]f64): f64 = shifted (f64.maximum x) x

-- ==
-- entry: gradient
-- input { [0.0, 0.0, 0.0, 0.0] } output { [0.25, 0.25, 0.25, 0.25] }
-- input { [1000.0, 0.0] } output { [1.0, 0.0] }
entry gradient [n] (x: [n]f64): [n]f64 = vjp (shifted (f64.maximum x)) x 1
