-- The cost of moving one distribution to another, with entropy (Cuturi, 2013), by logarithms.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def logsumexp [m] (v: [m]f64): f64 =
  let top = f64.maximum v
  in top + f64.log (f64.sum (map (\u -> f64.exp (u - top)) v))

entry value [n][m] (x: [n][2]f64) (y: [m][2]f64): f64 =
  let eps = 0.1
  let cost = map (\a -> map (\b -> f64.sum (map2 (\p q -> (p - q) ** 2) a b)) y) x
  let (f, g) =
    loop (f, g) = (replicate n 0, replicate m 0) for _i < 50 do
      let f = map (\row -> eps * (-f64.log (f64.i64 n) - logsumexp (map2 (\c v -> (v - c) / eps) row g))) cost
      let g = map (\col -> eps * (-f64.log (f64.i64 m) - logsumexp (map2 (\c u -> (u - c) / eps) col f)))
        (transpose cost)
      in (f, g)
  let plan = map2 (\row u -> map2 (\c v -> c * f64.exp ((u + v - c) / eps)) row g) cost f
  in f64.sum (map f64.sum plan)
