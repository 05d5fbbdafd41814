-- Cox's partial likelihood of survival times, sorted, longest first (Cox, 1972).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n][d] (w: [d]f64) (x: [n][d]f64) (died: [n]f64): f64 =
  let score = map (\row -> f64.sum (map2 (*) row w)) x
  let at_risk = scan (+) 0 (map f64.exp score)
  in -f64.sum (map3 (\s r e -> e * (s - f64.log r)) score at_risk died)
