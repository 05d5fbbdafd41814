-- Places that are cut off at one end only, in loops inside a map that would run in lanes.
entry one_end [n][k] (xs: [n]f64) (t: [k]f64): [n]f64 =
  map (\x -> loop y = x for _j < 20 do
    let i = i64.max 0 (i64.f64 (y * 2))
    in 0.3 * f64.exp (f64.sin y) + t[i] / (1 + f64.exp (-y))) xs
entry other_end [n][k] (xs: [n]f64) (t: [k]f64): [n]f64 =
  map (\x -> loop y = x for _j < 20 do
    let i = i64.min (k - 1) (i64.f64 (y * 2))
    in 0.3 * f64.exp (f64.sin y) + t[i] / (1 + f64.exp (-y))) xs
