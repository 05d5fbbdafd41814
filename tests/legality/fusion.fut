-- What fusion must not do: an entry for each condition.

-- An assertion that needs the producer comes before what follows it fails.
-- ==
-- entry: effect
-- input { [1.0, 2.0] 7i64 }
entry effect [n] (xs: [n]f64) (i: i64) : [n]f64 =
  let ys = map (* 2) xs
  let s = f64.sum ys
  let zs = assert (s < 0) ys
  in map (\y -> y + xs[i]) zs

-- A cheap producer reads what is overwritten before its second consumer.
entry copied [n] (a: *[n]f64) : ([n]f64, f64, f64, [n]f64) =
  let p = map (* 2) a
  let c = map (+ 1) p
  let a[0] = f64.sum c
  let d = map (\x -> x * x) p
  let e = f64.sum d
  let f = map (\x -> x * e) p
  in (c, e, f64.maximum f, a)

-- All elements are checked although one is read.
-- ==
-- entry: asserting
-- input { [1.0, -1.0] 0i64 }
entry asserting [n] (xs: [n]f64) (i: i64) : f64 = (map (\x -> assert (x > 0) (x * 2)) xs)[i]

-- There is no array whose index could be checked.
-- ==
-- entry: unindexed
-- input { [1.0, -1.0] 5.0 7i64 }
entry unindexed [n] (xs: [n]f64) (c: f64) (i: i64) : f64 = (map (\_ -> c * c) xs)[i]

-- The element is one of what was there before.
entry element [n] (a: *[n]f64) (i: i64) : (f64, [n]f64) =
  let p = map (\x -> x * 2 + 1) a
  let a[0] = 9
  in (p[i], a)

-- The element is a row of what is overwritten later.
entry rows [n][m] (a: *[n][m]f64) (k: i64) : ([m]f64, [n][m]f64) =
  let p = map (\i -> a[n - 1 - i]) (iota n)
  let q = p[k]
  let a[0, 0] = 5
  in (q, a)

-- A nest that an accumulator's scope reads also makes the array that is added to, is read elsewhere, or reads what is
-- overwritten before the scope.
def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v
entry opened [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  let (ys, zs) = unzip (map (\x -> (f64.sin x, f64.cos x)) xs)
  in intrinsics.hist_stream zs (+) 0 (\(a: *intrinsics.acc ([n]f64)) (y, i) -> put a i y) (zip ys is)
entry read_too [n] (zs: *[n]f64) (xs: [n]f64) (is: [n]i64) : ([n]f64, f64) =
  let ys = map f64.sin xs
  in (intrinsics.hist_stream zs (+) 0 (\(a: *intrinsics.acc ([n]f64)) (y, i) -> put a i y) (zip ys is), ys[n / 2])
entry changed [n] (zs: *[n]f64) (xs: *[n]f64) (is: [n]i64) : ([n]f64, [n]f64) =
  let ys = map f64.sin xs
  let xs[0] = zs[n - 1]
  in (intrinsics.hist_stream zs (+) 0 (\(a: *intrinsics.acc ([n]f64)) (y, i) -> put a i y) (zip ys is), xs)
