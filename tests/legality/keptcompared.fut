-- at -O3
-- What a loop of the return sweep saves is compared with what it was chosen from: sines that the return sweep computes
-- in lanes, the forward sweep one at a time, as it computes something else of the same elements that cannot go in lanes.
def cost (x: f64) (w: f64) = f64.exp (-x * x * w) + f64.tanh (x + w) * f64.exp (-w)
def far (x: f64) = (loop (z, k) = (x, 1i64) while z * z < 9 && k < 20 do (z * 1.5 + f64.i64 (k % 3), k * 2)).0

entry places [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let cs = map2 (\a w -> w * f64.sin a) x ws[t]
    let ds = map far x
    let (x, s) = #[forward_sweep(2)] loop (x, s) = (copy x, 9) for i < m do
      (x with [i] = cost x[i] ws[t, i], f64.min s cs[i])
    in (map2 (\x d -> x + s + 0.01 * d) x ds, hs)
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
