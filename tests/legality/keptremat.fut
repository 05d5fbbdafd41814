-- What is a cheap function of another array is not always computed from that where it is used.

-- The other array is overwritten before.
entry overwritten [n] (xs: [n]f64) =
  let q = map f64.exp xs
  let r = map (2 *) q
  let s = f64.sum q
  let q[0] = s
  in (map2 (\x y -> x * y + s) r q, q)

-- It fails, and before it does, something else would.
-- ==
-- entry: failing
-- input { [1i64, 2i64, 3i64] 0i64 7i64 }
entry failing [n] (xs: [n]i64) (k: i64) (i: i64) =
  let (q, r) = unzip (map (\x -> let a = x * 3 + 1 in (a, a / k)) xs)
  let z = xs[q[0] + i]
  in (q, map (\y -> y + z) r)

-- Each element of a row is used with the row's first.
entry rows [n][m] (xs: [n][m]f64) =
  let (q, r) = unzip (map (\x -> unzip (map (\x -> let a = f64.exp x in (a, 2 * a)) x)) xs)
  let s = f64.sum (map f64.sum q)
  in (q, map (\row -> map (\x -> x * row[0] + s) row) r)
