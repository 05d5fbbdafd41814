-- What two sweeps make of an array's elements looks the same, and is not of as many.
entry other_elements (a: [4]f64) (x: [5]f64) =
  loop (a, x) = (copy a, copy x) for _t < 2 do
    let n = 3i64
    let end = n - 1
    let (c, y, hs) = #[forward_sweep(1)] loop (c, y, hs) = (a, a, replicate n (replicate 4 0)) for i < n do
      let d = map (\w -> w * (y[0] + 2 * y[1] - y[2])) c
      in (d, map (* (1 + 0.1 * d[0])) y, hs with [i] = y)
    let g = #[return_sweep(1)] loop g = x for j < n do
      let i = end - j
      let y = hs[i]
      in map (\w -> w * (y[0] + 2 * y[1] - y[2])) g
    in (map2 (+) c y, g)
