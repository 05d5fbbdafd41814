-- Branches that return slices of one array, of different sizes or from different places.
-- ==
-- entry: prefix
-- input { true 1i64 2i64 [1, 2, 3] } output { [1, 2] }
-- input { false 1i64 2i64 [1, 2, 3] } output { [1] }
-- input { false 0i64 3i64 [1, 2, 3] } output { empty([0]i32) }

-- ==
-- entry: half
-- input { true [1, 2, 3, 4] } output { [1, 2] }
-- input { false [1, 2, 3, 4] } output { [3, 4] }

entry prefix (b: bool) (n: i64) (m: i64) (xs: []i32): []i32 = if b then xs[0:m] else xs[0:n]

entry half [n] (b: bool) (xs: [n]i32): [n / 2]i32 =
  if b then take (n / 2) xs else drop (n - n / 2) xs :> [n / 2]i32
