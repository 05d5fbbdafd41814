-- Negative log-likelihood of a mixture of round normal distributions (Bishop, 2006, 9.2).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def logsumexp [m] (v: [m]f64): f64 =
  let top = f64.maximum v
  in top + f64.log (f64.sum (map (\u -> f64.exp (u - top)) v))

entry value [n][k][d] (w: [k]f64) (means: [k][d]f64) (s: [k]f64) (x: [n][d]f64): f64 =
  let total = logsumexp w
  let density p lw mean t =
    let z = f64.sum (map2 (\a b -> ((a - b) / f64.exp t) ** 2) p mean)
    in lw - total - f64.i64 d * (t + 0.5 * f64.log (2 * f64.pi)) - 0.5 * z
  in -f64.sum (map (\p -> logsumexp (map3 (density p) w means s)) x)
