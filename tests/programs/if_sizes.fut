-- Branches whose arrays have sizes that agree, and sizes that do not.
-- ==
-- input { [1, 2, 3] true }
-- output { [1, 2, 3] [1, 2, 3] [2, 4, 6] 3i64 }
-- input { [1, 2, 3] false }
-- output { [3, 2, 1] [0, 0] [1, 2, 3] 2i64 }
entry main [n] (xs: [n]i32) (b: bool) =
  let same = if b then xs else reverse xs
  let other = if b then filter (> 0) xs else replicate 2 0
  in (same, other, if b then map (* 2) xs else copy xs, length other)
