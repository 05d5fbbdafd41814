-- Folds of rows in two sweeps that look like the same ones, and are not.
entry other_rows [n][m] (a: [n]f64) (x: [m]f64) =
  loop (a, b) = (copy a, copy x) for _t < 2 do
    let end = n - 1
    let (_, y, hs) = #[forward_sweep(1)] loop (c, y, hs) = (a, b, replicate n (replicate m 0)) for i < n do
      let d = map (\w -> w * f64.sum (map (\q -> f64.exp (-q * q)) y)) c
      in (d, map (* (1 + 0.1 * d[0])) y, hs with [i] = y)
    let g = #[return_sweep(1)] loop g = y for j < n do
      let i = end - j
      let y = hs[i]
      in map (\w -> w * f64.sum (map (\q -> f64.exp (-q * q)) y)) g
    in (a, g)
entry elements_of_another_map [m] (x: [m]f64) =
  loop b = copy x for _t < 2 do
    let n = 3i64
    let end = n - 1
    let (y, hs) = #[forward_sweep(1)] loop (y, hs) = (b, replicate n (replicate m 0)) for i < n do
      let zs = map (\q -> f64.exp (-q * q)) y
      let own = map (\z -> f64.sum (map (\_ -> f64.exp (z * z)) zs)) zs
      let both = map (\z -> f64.sum (map (\v -> f64.exp (z * v)) zs)) zs
      in (map3 (\q a b -> 0.1 * (q + a / b)) y own both, hs with [i] = y)
    in #[return_sweep(1)] loop g = y for j < n do
      let i = end - j
      let zs = map (\q -> f64.exp (-q * q)) hs[i]
      let both = map (\z -> f64.sum (map (\v -> f64.exp (z * v)) zs)) zs
      in map2 (/) g both
