-- A neural differential equation by Runge-Kutta steps (Chen et al., 2018): distance to a target.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def affine [m][n] (a: [m][n]f64) (b: [m]f64) (x: [n]f64): [m]f64 =
  map2 (\row c -> f64.sum (map2 (*) row x) + c) a b

entry value [d][h] (w1: [h][d]f64) (b1: [h]f64) (w2: [d][h]f64) (b2: [d]f64) (y0: [d]f64) (target: [d]f64): f64 =
  let f y = affine w2 b2 (map f64.tanh (affine w1 b1 y))
  let step h y =
    let k1 = f y
    let k2 = f (map2 (\a k -> a + 0.5 * h * k) y k1)
    let k3 = f (map2 (\a k -> a + 0.5 * h * k) y k2)
    let k4 = f (map2 (\a k -> a + h * k) y k3)
    in map5 (\a p q r s -> a + h / 6 * (p + 2 * q + 2 * r + s)) y k1 k2 k3 k4
  let y = loop y = y0 for _i < 1000 do step 0.01 y
  in f64.sum (map2 (\a b -> (a - b) ** 2) y target)
