-- Prices of European calls in closed form (Black and Scholes, 1973).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (spot: [n]f64) (sigma: [n]f64) (rate: f64) (strike: [n]f64) (time: [n]f64): f64 =
  let phi x = 0.5 * (1 + f64.erf (x / f64.sqrt 2))
  let price s v k t =
    let d1 = (f64.log (s / k) + (rate + 0.5 * v * v) * t) / (v * f64.sqrt t)
    let d2 = d1 - v * f64.sqrt t
    in s * phi d1 - k * f64.exp (-rate * t) * phi d2
  in f64.sum (map4 price spot sigma strike time)
