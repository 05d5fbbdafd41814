-- Reductions and scans whose elements are arrays.
-- ==
-- input { [[1, 2], [3, 4], [5, 6]] }
-- output { [9, 12] [[1, 2], [4, 6], [9, 12]] }
-- input { empty([0][3]i32) }
-- output { [0, 0, 0] empty([0][3]i32) }
entry main [n][m] (xss: [n][m]i32) =
  ( reduce (map2 (+)) (replicate m 0) xss
  , scan (map2 (+)) (replicate m 0) xss
  )
