-- What hoisting must not do: an entry for each condition.

-- No iteration, no failure.
-- ==
-- entry: no_iteration
-- input { [1.0] 0i64 5i64 }
entry no_iteration [n] (xs: [n]f64) (k: i64) (j: i64) : f64 = loop s = 0 for i < k do s + xs[j] * f64.i64 i

-- What an assertion in the loop guards stays behind it.
-- ==
-- entry: guarded
-- input { [1.0] 5i64 }
entry guarded [n] (xs: [n]f64) (j: i64) : f64 =
  loop s = 0 for i < 3 do let x = assert (j >= 0 && j < n) xs[j] in s + x * f64.i64 i

-- What has another shape has as many elements only where a check in the loop says so.
-- ==
-- entry: reshaped
-- input { [1.0, 2.0] 3i64 } error: cannot match
-- input { [1.0] 3i64 } output { 6.0 }
entry reshaped [n] (xs: [n]f64) (k: i64) : f64 =
  loop s = 0 for _i < k do s + f64.sum (map (* 2) (xs :> [n * n * n]f64))

-- An array that each iteration overwrites.
entry anew [n] (xs: [n]i64) (k: i64) : i64 =
  loop s = 0 for i < k do
    let t = replicate (n + 1) k
    let t[i % (n + 1)] = s
    in s + i64.sum t

-- An assertion that is one branch's only by what it guards.
-- ==
-- entry: asserting
-- input { [-1.0] false }
entry asserting [n] (xs: [n]f64) (c: bool) : f64 =
  let ys = map (\x -> assert (x > 0) (f64.exp x)) xs
  in if c then f64.sum ys else 0

-- A failure that is one branch's only.
-- ==
-- entry: failing
-- input { [1.0] [3i64] false }
entry failing [n][m] (xs: [n]f64) (is: [m]i64) (c: bool) : f64 =
  let ys = map (\i -> f64.exp xs[i]) is
  in if c then f64.sum ys else 0

-- What a branch alone needs is made of what is overwritten before it.
entry overwritten [n] (a: *[n]f64) (c: bool) : (f64, [n]f64) =
  let ys = map f64.exp a
  let a[0] = 1
  let b = if c then f64.sum ys else a[0] + 1
  in (b, a)

-- Elements of arrays from outside, of which a map inside makes what costs much: `optimise/hoist_elements.py`.
-- ==
-- entry: elements
-- input { empty([0]i64) [0i64, 1i64] }
entry elements [n][m] (xs: [n]i64) (ds: [m]i64) : [n]i64 =
  map (\x -> i64.sum (map (\d -> x * (10 / d + 20 / d + 30 / d + 40 / d)) ds)) xs

entry own_elements [n][m] (xs: [n]f64) (ys: [m]f64) : [n]f64 =
  map (\x -> let zs = scan (+) x ys in f64.sum (map2 (\y z -> x * f64.exp z + y) ys zs)) xs
