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
-- The place of the least element is found by comparing it with the elements, sines that are computed again.
entry compared [k] (w: [k][k]f64) (y: [k]f64): [k][k]f64 =
  let ends w = loop v = map (\i -> 0.7 + 0.1 * f64.i64 i) (iota k) for i < 6 do
    map (\row -> let z = f64.minimum (map2 (\u a -> 0.9 * (a * f64.sin u)) v row) * 0.9
                 in f64.sin (f64.exp (-f64.sqrt (0.1 + z * z)) + 0.3 * f64.i64 i)) w
  in vjp ends w y
