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
