-- Rows that iterations read and overwrite, on devices: an entry for each condition.

entry needed [n] (xs: [n]f64) (s: f64) : (f64, [n]f64) =
  loop (s, a) = (s, copy xs) for i < n do
    let x = a[i]
    in (f64.sin (s + x), a with [i] = s)

entry others [n] (xs: [n]f64) (s: f64) : f64 =
  let (s, _) = loop (s, a) = (s, copy xs) for i < n do
    let x = a[i] + a[n - 1 - i]
    in (f64.sin (s + x), a with [i] = s)
  in s

entry after [n] (xs: [n]f64) (s: f64) : f64 =
  let (s, _) = loop (s, a) = (s, copy xs) for i < n do
    let x = a[i]
    let a = a with [i] = f64.cos s
    in (f64.sin (s + x + a[n - 1 - i]), a)
  in s

entry same [n] (xs: [n]f64) (s: f64) : f64 =
  let (s, _) = loop (s, a) = (s, copy xs) for i < n do
    let j = i / 2
    let x = a[j]
    in (f64.sin (s + x), a with [j] = s)
  in s

-- The adjoint of what iterations yield.
entry yielded [n][m] (xs: [n][m]f64) (w: [m]f64) (bar: [n][m]f64) =
  vjp (\w -> let (_, ys) = loop (s, ys) = (w, replicate n (replicate m 0)) for i < n do
               let s = map2 (\a x -> f64.sin (a + x)) s xs[i]
               in (s, ys with [i] = s)
             in ys) w bar
