-- The loss on held-out points after training by gradient descent with momentum, and its gradient by the rates and
-- decays of all steps: training is a loop with a derivative inside, and reverse mode goes through it.  A step can be
-- taken back, as long as its decay is not 0: with `reversible=True` no weights of the way are kept.
-- Source of the problem: Maclaurin, Duvenaud and Adams, Gradient-based hyperparameter optimization through reversible
-- learning, ICML 2015.
-- ==
-- entry: loss gradient
-- input { [0.5, 0.4, 0.3] [0.9, 0.8, 0.95] [0.1, -0.2]
--         [[1.0, 0.5], [-0.5, 2.0], [0.3, -1.0], [-1.5, 0.2]] [1.0, 0.0, 1.0, 0.0]
--         [[0.5, 0.5], [-1.0, 1.0]] [1.0, 0.0] }

-- Logistic regression: the mean over the points x of the negative log-probability of the labels y, 0 or 1.
def logistic_loss [n][d] (x: [n][d]f64) (y: [n]f64) (w: [d]f64) : f64 =
  let one (x: [d]f64) (y: f64) =
    let z = f64.sum (map2 (*) x w)
    in (if z > 0 then z + f64.log1p (f64.exp (-z)) else f64.log1p (f64.exp z)) - y * z
  in f64.sum (map2 one x y) / f64.i64 n

def trained [s][n][d] (rates: [s]f64) (decays: [s]f64) (x: [n][d]f64) (y: [n]f64) (w: [d]f64) : [d]f64 =
  let (w, _) =
    loop (w, v) = (w, replicate d 0) for i < s do
      let slope = vjp (logistic_loss x y) w 1
      let v = map2 (\v g -> decays[i] * v - (1 - decays[i]) * g) v slope
      in (map2 (\w v -> w + rates[i] * v) w v, v)
  in w

entry loss [s][n][m][d] (rates: [s]f64) (decays: [s]f64) (w: [d]f64) (x: [n][d]f64) (y: [n]f64)
                        (held_x: [m][d]f64) (held_y: [m]f64) : f64 =
  logistic_loss held_x held_y (trained rates decays x y w)

entry gradient [s][n][m][d] (rates: [s]f64) (decays: [s]f64) (w: [d]f64) (x: [n][d]f64) (y: [n]f64)
                            (held_x: [m][d]f64) (held_y: [m]f64) : ([s]f64, [s]f64, [d]f64) =
  vjp (\(rates, decays, w) -> loss rates decays w x y held_x held_y) (rates, decays, w) 1
