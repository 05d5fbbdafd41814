-- Loops inside a return sweep that run again what the forward sweep ran, but for one thing.
def cost (x: f64) (w: f64) = f64.exp (-x * x * w) + f64.tanh (x + w) * f64.exp (-w)

entry saved [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    in map2 (\g e -> g * e) g es
  in (y, g)

-- What is saved needs what is computed between the sweeps.
entry between [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let c = f64.sum y
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * c)
    in map2 (\g e -> g * e) g es
  in (y, g)

-- The return sweep has one iteration more.
entry fewer [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < last do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    in map2 (\g e -> g * e) g es
  in (y, g)

-- The first iteration's value is saved last.
entry backwards [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [last - t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    in map2 (\g e -> g * e) g es
  in (y, g)

-- The return sweep's loop goes on with other values.
entry other [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[(i + 1) % m] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    in map2 (\g e -> g * e) g es
  in (y, g)

-- What the return sweep's loop makes beside is read in its next iteration.
entry beside [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 1) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * es[m - 1 - i])
    in map2 (\g e -> g * e) g es
  in (y, g)

-- What has been saved is read at once.
entry saved_and_read [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es, fs) = #[forward_sweep(2)] loop (x, es, fs) = (copy x, replicate m 0, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      let es = es with [i] = e * 0.5
      in (x with [i] = e, es, fs with [i] = es[0] + e)
    in map3 (\g e f -> g * e + f) g es fs
  in (y, g)

-- What is saved is a function of what the return sweep carries.
entry backward_only [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * g[i])
    in map2 (\g e -> g * e) g es
  in (y, g)

-- What the return sweep's loop reads besides, the iteration has overwritten before its own loop.
entry overwritten [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, z, hs, ks) = #[forward_sweep(1)] loop (x, z, hs, ks) =
      (copy x, copy g, replicate n (replicate m 0), replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let ks = ks with [t] = z
    let z = z with [t % m] = x[0]
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, z, hs, ks)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let z = ks[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * z[i])
    in map2 (\g e -> g * e) g es
  in (y, z, g)

-- The return sweep overwrites what is saved.
entry written [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < m do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 0) for i < m do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    let es[j % m] = 9
    in map2 (\g e -> g * e) g es
  in (y, g)

-- The return sweep's loop does not save in the last row.
entry last_row [n][m] (ws: [n][m]f64) (x: [m]f64) (g: [m]f64) =
  let last = n - 1
  let k = m - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m 0)) for t < n do
    let hs = hs with [t] = x
    let x = #[forward_sweep(2)] loop x = copy x for i < k do x with [i] = cost x[i] ws[t, i]
    in (x, hs)
  let g = #[return_sweep(1)] loop g = copy g for j < n do
    let t = last - j
    let x = hs[t]
    let (_, es) = #[forward_sweep(2)] loop (x, es) = (copy x, replicate m 7) for i < k do
      let e = cost x[i] ws[t, i]
      in (x with [i] = e, es with [i] = e * 0.5)
    in map2 (\g e -> g * e) g es
  in (y, g)
