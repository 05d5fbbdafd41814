-- Views and index arrays that an iteration overwrites are new in each.
entry counted [n] (xs: [n]i64): [n][3]i64 =
  map (\x -> let t = iota 3 in t with [x % 3] = x) xs
entry turned [n] (xs: [n]i64): ([3]i64, i64) =
  loop (last, s) = (replicate 3 0, 0) for i < n do
    let t = iota 3
    let t = t with [i % 3] = xs[i]
    in (copy t, s + t[0] + t[1] * t[2])

-- What a loop that is not run would make may have a negative size.
-- ==
-- entry: unrun
-- input { 0i64 -3i64 }
entry unrun (k: i64) (m: i64): i64 =
  let s = loop s = 0 for i < k do s + i64.sum (map (+ i) (iota m))
  in if m < 0 then s - 7 else s + 7

-- What has another shape has as many elements only where a check in the map says so.
-- ==
-- entry: reshaped
-- input { [1.0, 2.0] } error: cannot match
-- input { [1.0] } output { [2.0] }
entry reshaped [n] (xs: [n]f64) : [n]f64 = map (\x -> (xs :> [n * n * n]f64)[0] + x) xs
