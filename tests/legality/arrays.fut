-- What the rules on arrays must not do: an entry for each condition.

-- ==
-- entry: unchecked
-- input { 3i64 3i64 }
entry unchecked (n: i64) (i: i64) : i64 = (iota n)[i]

-- ==
-- entry: repeated
-- input { 3i64 3i64 1.5 }
entry repeated (n: i64) (i: i64) (x: f64) : f64 = (replicate n x)[i]

-- ==
-- entry: sliced
-- input { [1.0, 2.0, 3.0] 2i64 2i64 }
entry sliced [n] (xs: [n]f64) (k: i64) (j: i64) : f64 = (xs[0:k])[j]

entry turned [n][m] (x: [n][m]f64) (k: i64) : [][]f64 = (transpose x)[0:i64.min k m]

entry elsewhere (x: f64) (u: f64) (v: f64) : f64 =
  let a = replicate 4 x
  let a[2] = u
  let a[1] = v
  in a[2]

-- ==
-- entry: failing
-- input { [1.0] 1i64 2.0 }
entry failing [n] (xs: *[n]f64) (i: i64) (v: f64) : f64 = (xs with [i] = v)[i]

entry other [n] (xs: *[n]f64) (v: f64) : f64 = let xs = xs with [0] = v in if n > 1 then xs[1] else 0

entry pieces [n] (xs: [n]f64) (ys: [n]f64) : [n]f64 = let zs = xs ++ ys in map (\i -> zs[i + n / 2]) (iota n)

entry reversed [n] (xs: [n]f64) : [n]f64 = xs[::-1]

entry copied [n] (xs: *[n]f64) : ([n]f64, f64) =
  let ys = copy xs
  let xs[0] = 5
  in (xs, ys[0])

entry both [n] (xs: [n]f64) : ([n]f64, [n]f64) = (copy xs, xs)

entry swapped [n] (xs: *[n]f64) : [n]f64 =
  let x = xs[0]
  let ys = copy xs
  let ys[0] = 7
  let ys[n - 1] = x
  in ys

entry copies_of [n] (a: *[n]f64) : ([2][n]f64, [n]f64) =
  let rs = replicate 2 (copy a)
  let a[0] = 6
  in (rs, a)

entry row_of [n] (a: *[n]f64) (i: i64) : (f64, [n]f64) =
  let rs = [copy a, map (+ 1) a]
  let a[0] = 6
  in (f64.sum rs[i % 2], a)

entry fresh [n] (x: f64) (ys: [n]f64) : ([n]f64, [n]f64) =
  let m = replicate 3 (replicate n x)
  let r = copy m[1]
  let s = copy m[2]
  let r[0] = ys[0]
  in (r, s)

entry part_of_zeros [n] (ys: [n]f64) : *[n]f64 =
  let m = replicate (2 * n) 0f64
  let r = m[0:n]
  let r[0] = ys[0]
  in r

entry joined [n] (a: *[n]f64) (b: [n]f64) : (f64, [n]f64) =
  let c = a ++ b
  let a[0] = 6
  in (f64.sum c + f64.sum (c ++ b), a)
