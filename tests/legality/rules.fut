-- What the other rules must not do: an entry for each condition.

entry two_names [n] (xs: [n]f64) (m: i64) : [m]f64 = let ys = xs :> [m]f64 in map (\i -> ys[m - 1 - i]) (iota m)

-- ==
-- entry: tame
-- input { 0.5 f64.inf }
entry tame (x: f64) (y: f64) : f64 = vjp (\x -> if x > 1 then x * y else x) x 1

-- ==
-- entry: divides
-- input { 5i64 0i64 }
entry divides (a: i64) (b: i64) : i64 = if b == 0 then a else a / b

entry row [n][m] (a: *[n][m]f64) : [n][m]f64 =
  loop a for i < n do
    let r = map (\j -> a[j, 0] + f64.i64 j) (iota n)
    in a with [i, 0] = f64.sum r

entry shorter [n] (xs: [n]f64) : []f64 = map (\i -> xs[i]) (iota (n / 2))

entry both [n] (xs: [n]f64) : ([n]f64, [n]f64) = let ys = map (* 2) xs let zs = map (* 2) xs in (ys, zs)

entry one_changes [n] (xs: [n]f64) : ([n]f64, f64) =
  let ys = map (* 2) xs
  let zs = map (* 2) xs
  let ys[0] = 1
  in (ys, f64.sum zs)

entry results [n] (xs: [n]f64) : ([n]f64, [n]f64) =
  let (ys, zs) = unzip (map (\x -> let y = x * 2 in (y, y)) xs)
  in (ys, copy zs)

entry identity [n] (xs: *[n]f64) : ([n]f64, [n]f64) =
  let ys = map (\x -> x) xs
  let xs[0] = 1
  in (xs, ys)

entry repeated [n][m] (a: *[m]f64) (xs: [n]f64) : ([n][m]f64, [m]f64) =
  let r = map (\_ -> a) xs
  let a[0] = 1
  in (r, a)

entry fills [n] (xs: [n]f64) (k: i64) : [n]f64 =
  loop a = replicate n 0 for i < i64.min (i64.max k 0) n do a with [i] = a[i] + xs[i]

entry fills_again [n] (xs: [n]f64) : [n]f64 =
  loop a = replicate n 0 for i < n do a with [i / 2] = a[i / 2] + xs[i]

entry fills_other [n] (xs: [n]f64) : [n]f64 =
  loop a = replicate n 0 for i < n do a with [i] = a[n - 1 - i] + xs[i]

entry fills_seen [n] (xs: [n]f64) : ([n]f64, f64) =
  loop (a, s) = (replicate n 0, 0) for i < n do let x = a[i] in (a with [i] = x + xs[i], s + x + 1)

entry fills_ones [n] (xs: [n]f64) : [n]f64 =
  loop a = replicate n 1 for i < n do a with [i] = a[i] + xs[i]

entry fills_product [n] (xs: [n]f64) : ([n]f64, f64) =
  loop (a, s) = (replicate n 0, 0) for i < n do let x = a[i] + xs[i] in (a with [i] = xs[i] * 2, s + x)

entry repeated_then [n][m] (a: *[m]f64) (xs: [n]f64) : ([n]f64, [m]f64) =
  let rs = replicate n a
  let a[0] = 5
  in (map2 (\r x -> f64.sum r + x) rs xs, a)

entry inner_rows [n][m] (a: [3][n][m]f64) : [3][n]f64 = map (\x -> copy x[1]) (map transpose a)

entry no_such_row [n] (m: [3][n]f64) : [n]f64 = map (\x -> x[5]) (transpose m)
