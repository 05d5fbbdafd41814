-- scatter in one, two and three dimensions, and spread; indices out of range are ignored.
-- ==
-- input { [1i64, -1i64, 0i64, 5i64] [10, 20, 30, 40] }
-- output { [30, 10, 0] [[30, 0], [0, 10]] [[[30]], [[10]]] [30, 10] }
-- input { empty([0]i64) empty([0]i32) }
-- output { [0, 0, 0] [[0, 0], [0, 0]] [[[0]], [[0]]] [7, 7] }
entry main [n] (is: [n]i64) (vs: [n]i32) =
  ( scatter (replicate 3 0) is vs
  , scatter_2d (replicate 2 (replicate 2 0)) (map (\i -> (i, i)) is) vs
  , scatter_3d (replicate 2 (replicate 1 (replicate 1 0))) (map (\i -> (i, 0, 0)) is) vs
  , spread 2 7 is vs
  )
