-- The cost of clusters: the sum of squared distances to the nearest centre (Lloyd, 1982).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [k][n][d] (centres: [k][d]f64) (x: [n][d]f64): f64 =
  let distance a b = f64.sum (map2 (\p q -> (p - q) ** 2) a b)
  in f64.sum (map (\p -> f64.minimum (map (distance p) centres)) x)
