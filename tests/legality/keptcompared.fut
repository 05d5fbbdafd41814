-- at -O3
-- What a loop of the return sweep saves is compared with what it was chosen from: sines that the forward sweep computes
-- one by one in its loop, the return sweep in lanes.
def cost (x: f64) (w: f64) = f64.exp (-x * x * w) + f64.tanh (x + w) * f64.exp (-w)

entry places [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let cs = map2 (\a w -> w * f64.sin a) x ws[t]
    let (x, s) = #[forward_sweep(2)] loop (x, s) = (copy x, 9) for i < m do
      (x with [i] = cost x[i] ws[t, i], f64.min s cs[i])
    in (map (+ s) x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let cs = map2 (\a w -> w * f64.sin a) x ws[t]
    let (_, _, es, fs) = #[forward_sweep(2)] loop (x, s, es, fs) = (copy x, 9, replicate m 0, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      let s = f64.min s cs[i]
      in (x with [i] = e, s, es with [i] = e * 0.5, fs with [i] = s)
    in map4 (\g e f c -> if f == c then g * e else g + 1) g es fs cs
  in (y, g)
