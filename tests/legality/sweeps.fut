-- Pairs of loops that are not quite a forward and a return sweep: what the first computes is not what the second does.
entry saved_backwards [n][m] (ws: [n][m]f64) (x: [m]f64) =
  loop (a, b) = (copy x, copy x) for _t < 2 do
    let last = n - 1
    let (y, hs) = #[forward_sweep(1)] loop (y, hs) = (a, replicate n (replicate m 0)) for i < n do
      (map2 (\x w -> f64.exp (-x * x * w)) y ws[i], hs with [n - 1 - i] = y)
    let g = #[return_sweep(1)] loop g = b for j < n do
      let i = last - j
      in map3 (\g x w -> g + f64.exp (-x * x * w)) g hs[i] ws[i]
    in (y, g)
entry read_elsewhere [n][m] (ws: [n][m]f64) (x: [m]f64) =
  loop (a, b) = (copy x, copy x) for _t < 2 do
    let last = n - 1
    let (y, hs) = #[forward_sweep(1)] loop (y, hs) = (a, replicate n (replicate m 0)) for i < n do
      (map2 (\x w -> f64.exp (-x * x * w)) y ws[i], hs with [i] = y)
    let g = #[return_sweep(1)] loop g = b for j < n do
      let i = last - j
      in map3 (\g x w -> g + f64.exp (-x * x * w)) g hs[j] ws[i]
    in (y, g)
entry other_element [n][m] (ws: [n][m]f64) (cs: [n]f64) (x: [m]f64) =
  loop b = copy x for _t < 2 do
    let last = n - 1
    let y = #[forward_sweep(1)] loop y = b for i < n do
      let z = copy y with [0] = cs[i]
      let v = z[m - 1]
      in map3 (\w q z -> f64.exp (-v * w) + q * z) ws[i] y z
    in #[return_sweep(1)] loop g = y for j < n do
      let i = last - j
      let s = cs[i]
      in map2 (\w g -> g * f64.exp (-s * w)) ws[i] g
entry fewer_iterations [n][m] (ws: [n][m]f64) (cs: [n]f64) (x: [m]f64) =
  loop b = copy x for _t < 2 do
    let last = n - 1
    let y = #[forward_sweep(1)] loop y = b for i < last do let c = cs[i] in map2 (\w q -> f64.exp (-c * w) + q) ws[i] y
    in #[return_sweep(1)] loop g = y for j < n do
      let i = last - j
      let c = cs[i]
      in map2 (\w g -> g * f64.exp (-c * w)) ws[i] g
entry one_further [n][m] (ws: [n][m]f64) (cs: [n]f64) (x: [m]f64) =
  loop b = copy x for _t < 2 do
    let k = n - 1
    let y = #[forward_sweep(1)] loop y = b for i < k do let c = cs[i] in map2 (\w q -> f64.exp (-c * w) + q) ws[i] y
    in #[return_sweep(1)] loop g = y for j < k do
      let i = k - j
      let c = cs[i]
      in map2 (\w g -> g * f64.exp (-c * w)) ws[i] g
entry narrower [n][m] (ws: [n][m]f64) (cs: [n]f64) (x: [m]f64) =
  loop b = copy x for _t < 2 do
    let last = n - 1
    let (y, s) = #[forward_sweep(1)] loop (y, s) = (b, 0) for i < n do
      let c = cs[i]
      let k = i % (m + 1)
      let ts = map2 (\w q -> f64.exp (-c * w) + q) (take k ws[i]) (take k y)
      in (map (* 0.5) y, s + f64.sum ts)
    in #[return_sweep(1)] loop g = map (+ s) y for j < n do
      let i = last - j
      let c = cs[i]
      let k = i % (m + 1)
      let ts = map2 (\w q -> f64.exp (-c * w) * q) (take k ws[i]) (take k g)
      in map (* (1 + f64.sum ts)) g
-- Two loops of equal iterations on arrays of their own, which are not equal in the beginning.
entry other_start [n] (zs: [n]f64): (f64, f64) =
  let a = loop s = replicate n 0 for i < n do s with [i] = zs[i] + f64.sum s
  let b = loop s = replicate n 1 for i < n do s with [i] = zs[i] + f64.sum s
  in (f64.sum a, f64.maximum b)
