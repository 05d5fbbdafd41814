-- Logistic regression with a ridge penalty (Hastie, Tibshirani, Friedman, 2009, 4.4).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n][d] (w: [d]f64) (b: f64) (x: [n][d]f64) (y: [n]f64): f64 =
  let score row = f64.sum (map2 (*) row w) + b
  let loss z t = f64.log (1 + f64.exp (-(2 * t - 1) * z))
  in f64.sum (map2 loss (map score x) y) / f64.i64 n + 0.01 * f64.sum (map (** 2) w)
