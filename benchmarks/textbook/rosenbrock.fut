-- Rosenbrock's function in many dimensions (1960).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (x: [n]f64): f64 =
  f64.sum (tabulate (n - 1) (\i -> 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2))
