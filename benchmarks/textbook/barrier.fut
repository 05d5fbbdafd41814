-- A down-and-out call by Monte Carlo (Glasserman, 2003, 1.1): a path ends where it meets the barrier.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n][m] (s0: f64) (sigma: f64) (r: f64) (z: [n][m]f64): f64 =
  let dt = 1 / f64.i64 m
  let strike = 100
  let barrier = 90
  let path zs =
    let (s, _) =
      loop (s, i) = (s0, 0) while i < m && s > barrier do
        (s * f64.exp ((r - 0.5 * sigma * sigma) * dt + sigma * f64.sqrt dt * zs[i]), i + 1)
    in if s > barrier then f64.max (s - strike) 0 else 0
  in f64.exp (-r) * f64.sum (map path z) / f64.i64 n
