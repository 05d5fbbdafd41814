-- What becomes of products under a condition: an entry for each condition.
def dot [n] (x: [n]f64) (y: [n]f64) : f64 = f64.sum (map2 (*) x y)

-- The last row is infinite, and seen by the last one alone.
entry infinite [n][m] (a: [n][m]f64) (b: [n][m]f64) : [n][m]f64 =
  let b = tabulate_2d n m (\j k -> if j == n - 1 then f64.inf else b[j, k])
  let f (a: [n][m]f64) = f64.sum (flatten (tabulate_2d n n (\i j -> if j <= i then f64.sin (dot a[i] b[j]) else 0)))
  in vjp f a 1

entry otherwise [n][m] (a: [n][m]f64) (b: [n][m]f64) : [n][m]f64 =
  let f (a: [n][m]f64) =
    f64.sum (flatten (tabulate_2d n n (\i j -> if j <= i then f64.sin (dot a[i] b[j]) else f64.cos (2 * dot a[i] b[j]))))
  in vjp f a 1

-- The second product is of a row that is known in the branch only.
entry picked [n][m] (a: [n][m]f64) (b: [n][m]f64) (c: [n]f64) : [n][n]f64 =
  tabulate_2d n n (\i j ->
    if c[j] <= c[i] then dot a[i] b[j] * f64.sin (dot a[i] b[i64.f64 (c[i] * c[j]) % n]) else 0)

entry placed [n][m] (a: [n][m]f64) (b: [n][m]f64) (c: [n]f64) : [n][m]f64 =
  let f (b: [n][m]f64) =
    f64.sum (flatten (tabulate_2d n n (\i j ->
      if c[j] <= c[i]
      then let r = i64.f64 (c[i] * c[j]) % n in dot a[i] b[j] * f64.sin (f64.sum (map2 (\x k -> x * b[r, k]) a[i] (iota m)))
      else 0)))
  in vjp f b 1
