-- The residual of Bratu's equation in one dimension by finite differences.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (u: [n]f64) (lambda: f64): f64 =
  let h = 1 / f64.i64 (n + 1)
  let at i = if i < 0 || i >= n then 0 else u[i]
  let residual i = at (i - 1) - 2 * u[i] + at (i + 1) + h * h * lambda * f64.exp u[i]
  in f64.sum (tabulate n (\i -> residual i ** 2))
