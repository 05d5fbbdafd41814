-- Programs that tempt to one region for all of a loop of parallel nests.

-- Between the nests an element is added to, once for all threads.
entry counted [n] (x: [n]f64) (k: i64): ([n]f64, [2]i64) =
  loop (x, c) = (x, [0, 0]) for t < k do
    (tabulate n (\i -> x[i] + 0.5 * x[(i + 1) % n]), c with [t % 2] = c[t % 2] + 1)
-- A number between the nests is read from what they write.
entry first_read [n] (x: [n]f64) (k: i64): ([n]f64, f64) =
  loop (x, s) = (x, 0) for _t < k do
    let y = tabulate n (\i -> x[i] * 0.5 + x[(i + 1) % n])
    in (y, if n > 0 then s + y[0] else s)
-- An array in an iteration is where a smaller one was.
entry grows [n] (x: [n]f64) (k: i64): [n]f64 =
  loop x for _t < k do
    let a = tabulate n (\i -> x[i] + x[n - 1 - i])
    let b = tabulate n (\i -> a[i] * a[(i + 1) % n])
    let d = tabulate (2 * n) (\i -> b[i % n] + b[i / 2])
    in tabulate n (\i -> 0.1 * d[i] + 0.1 * d[2 * n - 1 - i])
-- Without an iteration there is no memory to be had.
entry none [n] (x: [n]f64) (m: i64) (k: i64): [n]f64 =
  loop x for _t < k do
    let a = tabulate m (\i -> x[i % n] + 1)
    in tabulate n (\i -> a[i % m] + a[m - 1 - i % m])
