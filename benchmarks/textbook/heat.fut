-- The heat equation by explicit steps on a square: misfit at the end (LeVeque, 2007, 9.1).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (u0: [n][n]f64) (k: [n][n]f64) (target: [n][n]f64): f64 =
  let step (u: [n][n]f64) =
    tabulate_2d n n (\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= n then u[i, j] else u[a, b]
      in u[i, j] + 0.2 * k[i, j] * (at (i - 1) j + at (i + 1) j + at i (j - 1) + at i (j + 1) - 4 * u[i, j]))
  let u = loop u = u0 for _t < 100 do step u
  in f64.sum (map2 (\p q -> f64.sum (map2 (\a b -> (a - b) ** 2) p q)) u target)
