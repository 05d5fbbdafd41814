-- What two sweeps make of an array's elements looks the same, and is not.
entry other_elements [n] (a: [n]f64) (x: [5]f64) =
  loop (a, b) = (copy a, copy x) for _t < 2 do
    let end = n - 1
    let (_, y, hs) = #[forward_sweep(1)] loop (c, y, hs) = (a, b, replicate n (replicate 5 0)) for i < n do
      let d = map (\w -> w * (y[0] + 2 * y[1] - y[2])) c
      in (d, map (* (1 + 0.1 * d[0])) y, hs with [i] = y)
    let g = #[return_sweep(1)] loop g = y for j < n do
      let i = end - j
      let y = hs[i]
      in map (\w -> w * (y[0] + 2 * y[1] - y[2])) g
    in (a, g)

-- A value is compared with one of the two that it was chosen from, which is computed again.
entry chosen [k] (w: [k]f64) (u: [k]f64): [k]f64 =
  let steps w u = loop u for i < 4 do
    tabulate k (\j ->
      let c = f64.sin (w[j] * w[j] + 0.3 * f64.i64 i) + 0.1 * w[j]
      let s = i64.max 0 (j - 1)
      let v = f64.max c (u[s] + u[j] - 0.3 * u[i64.min (k - 1) (j + 1)])
      in if v == c then 0.5 * u[j] + w[j] else v * w[j])
  in vjp (steps u) w (replicate k 1)
