-- Springs of masses 1, each by itself, moved by the leapfrog rule: half a kick, a drift, half a kick. Every step can be
-- taken back: what is added to one of position and momentum follows from the other. The gradient is that of the energy
-- at the end.
-- ==
-- entry: loss gradient
-- input { 4i64 0.1 [1.0, 4.0, 0.25] [0.5, -1.0, 2.0] [0.0, 1.0, -0.5] }

def kick (h: f64) (k: f64) (q: f64) (p: f64) : f64 = p - 0.5 * h * k * f64.sin q

def step [n] (h: f64) (ks: [n]f64) (qs: [n]f64, ps: [n]f64) : ([n]f64, [n]f64) =
  let ps = map3 (kick h) ks qs ps
  let qs = map2 (\q p -> q + h * p) qs ps
  in (qs, map3 (kick h) ks qs ps)

def moved [n] (steps: i64) (h: f64) (ks: [n]f64) (qs: [n]f64) (ps: [n]f64) : ([n]f64, [n]f64) =
  loop (qs, ps) for _i < steps do step h ks (qs, ps)

entry loss [n] (steps: i64) (h: f64) (ks: [n]f64) (qs: [n]f64) (ps: [n]f64) : f64 =
  let (qs, ps) = moved steps h ks qs ps
  in f64.sum (map3 (\k q p -> 0.5 * p * p + k * (1 - f64.cos q)) ks qs ps)

entry gradient [n] (steps: i64) (h: f64) (ks: [n]f64) (qs: [n]f64) (ps: [n]f64) : ([n]f64, [n]f64, [n]f64) =
  vjp (\(ks, qs, ps) -> loss steps h ks qs ps) (ks, qs, ps) 1
