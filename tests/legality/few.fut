-- A loop over a vector of a few elements that is made before what it is made of is overwritten.

-- ==
-- entry: begun
-- input { [0.0, 1.0, 2.0, 3.0, 4.0] 2.0 }
-- output { [10.0, 4.0, 5.0, 26.0] [2.0, 1.0, 2.0, 3.0, 4.0] }
entry begun [n] (c: *[n]f64) (x: f64): ([4]f64, [n]f64) =
  let d0 = map (\i -> c[(n - 1 + i) % n]) (iota 4)
  let c[0] = x
  in (loop d = d0 for r < 2 do map (\i -> if i < r then d[i] else d[i] * x + d[3 - i]) (iota 4), c)
