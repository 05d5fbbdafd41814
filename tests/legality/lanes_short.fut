-- Programs that tempt a map around short loops to run in lanes.

-- How often loops inside run is computed in each iteration, and is the same for all.
entry lengths_inside [n][m] (ts: [n]f64) (x: [m]f64) (d: i64): [n]f64 =
  map (\t -> let k = m / d in f64.exp (f64.sin (f64.sum (map (\i -> t * f64.i64 i) (iota (i64.max 0 (k % 5))))))) ts

-- What is checked comes of a loop inside, and is not in range at first; or of memory that one writes.
entry sum_checked [n] (z: [n][3]f64) (x: [4]f64): [n]f64 =
  map2 (\row i ->
    let s = f64.sum (map (\v -> f64.exp (f64.sin v) + 2) row)
    in f64.log s + x[i64.f64 s * i64.max 0 (17 - i)]) z (iota n)
entry row_checked [n] (z: [n][3]f64) (ks: [n]i64): ([n][3]f64, [n]f64) =
  unzip (map2 (\row k ->
    let r = map (\v -> f64.exp (f64.sin v) + 5) row
    let v = r[k & 1]
    in (r, f64.log (f64.sum r) + assert (v > 5) v)) z ks)
