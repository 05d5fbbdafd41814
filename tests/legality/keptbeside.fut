-- The inner loop has a variable of which the return sweep has no use, beside one that it runs again for.
-- ==
-- entry: beside
-- input { [0.1, 0.3, 0.5, 0.7, 0.9] }

entry values [n] (xs: [n]f64) : f64 =
  f64.sum (loop x = xs for _i < 6 do
    let (_, out) = loop (left, out) = (1.0, replicate n 0.0) for j < n do
      let v = f64.exp (0.1 * f64.sin (left + x[j]))
      in (v, out with [j] = v)
    in map (\v -> v + 1.0) out)

-- The other variable's elements are read of an array that the iteration has overwritten.
entry beside [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop x = xs for _i < 6 do
    let (_, out) = loop (a, out) = (copy x, replicate n 0.0) for j < n do
      let v = f64.exp (0.1 * f64.sin (a[j] + a[(j + 1) % n]))
      let a = a with [j] = v
      in (a, out with [j] = a[(j + 2) % n] + v)
    in map (\v -> v + 1.0) out)) xs 1

entry rows [n] (xs: [n]f64) : [n]f64 = vjp values xs 1
