-- Programs that tempt a map around short loops to run in lanes.

-- How often loops inside run is computed in each iteration, and is the same for all.
entry lengths_inside [n][m] (ts: [n]f64) (x: [m]f64) (d: i64): [n]f64 =
  map (\t -> let k = m / d in f64.exp (f64.sin (f64.sum (map (\i -> t * f64.i64 i) (iota (i64.max 0 (k % 5))))))) ts
