-- What must not be proved: an entry for each condition.

entry below [n] (xs: [n]f64) : [n]f64 = map (\i -> xs[i + 1]) (iota n)
entry negative [n] (xs: [n]f64) : [n]f64 = map (\i -> xs[i - 1]) (iota n)

-- ==
-- entry: cofactor
-- input { 5i64 -2i64 }
entry cofactor (n: i64) (j: i64) : []i64 =
  if j >= -3 && j <= 3 then map (\i -> if i * j >= 0 then 1 else 2) (iota n) else []

-- ==
-- entry: signs
-- input { 5i64 0i64 }
entry signs (n: i64) (k: i64) : []i64 =
  if k >= 0 && k <= 3 then map (\i -> if i * k - i >= 0 then 1 else 2) (iota n) else []

-- ==
-- entry: divisor
-- input { 5i64 -3i64 }
entry divisor (n: i64) (k: i64) : []i64 =
  if k < 0 && k > -100 then map (\i -> if i % k < k then 1 else 2) (iota n) else []

-- ==
-- entry: dividend
-- input { -5i64 }
entry dividend (x: i64) : i64 = if x >= -100 && x <= 100 then (if x / 2 <= x then 1 else 2) else 0

-- ==
-- entry: greater
-- input { 5i64 3i64 }
entry greater (a: i64) (b: i64) : i64 = if i64.max a b <= b then 1 else 2

-- ==
-- entry: starts
-- input { [1.0, 2.0] -1i64 }
entry starts [n] (xs: [n]f64) (a: i64) : f64 = if a >= -3 && a <= n then f64.sum xs[a:n] else 0

-- ==
-- entry: ends
-- input { [1.0, 2.0] 3i64 }
entry ends [n] (xs: [n]f64) (k: i64) : f64 = f64.sum xs[0:i64.max 0 k]

-- ==
-- entry: wraps
-- input { [1.0, 2.0] 9223372036854775807i64 }
entry wraps [n] (xs: [n]f64) (i: i64) : f64 = if i >= 0 && i + 1 <= n then xs[i] else 0

-- Of two places that differ either may be the smaller one.
-- ==
-- entry: differ
-- input { [1.0, 2.0, 3.0] [0i64, 2i64, 1i64] }
entry differ [n] (xs: [n]f64) (js: [n]i64) : []f64 =
  map2 (\i j -> if i != j && j >= 0 then (if i < j then 1 else xs[i]) else 0) (iota n) js

-- A sum of 32 bits is beyond them, and negative.
-- ==
-- entry: narrow_sum
-- input { 0i64 }
-- output { 12i64 }
entry narrow_sum (start: i64) : i64 =
  loop s = start for i < 3i32 do
    let j = i64.i32 (i + 2147483647)
    in if j < 0 then s + 1 else s + 10

-- ==
-- entry: multiple
-- input { [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] }
entry multiple [n] (xs: [n]f64) : []f64 = map (\i -> xs[3 * i]) (iota (n / 2))
