-- flatten, unflatten, their 3-d and 4-d forms, transpose.
-- ==
-- input { [[1, 2, 3], [4, 5, 6]] }
-- output { [1, 2, 3, 4, 5, 6] [[1, 4], [2, 5], [3, 6]] [[1, 2], [3, 4], [5, 6]] [[[1], [2], [3]], [[4], [5], [6]]] 6i64 [[[[1, 2, 3]]], [[[4, 5, 6]]]] }
-- input { empty([0][2]i32) }
-- output { empty([0]i32) empty([2][0]i32) empty([2][0]i32) empty([0][2][1]i32) 0i64 empty([0][1][1][2]i32) }
entry main [n][m] (xss: [n][m]i32) =
  ( flatten xss
  , transpose xss
  , unflatten (flatten xss :> [m * n]i32) :> [m][n]i32
  , (unflatten_3d (flatten xss :> [n * m * 1]i32)) :> [n][m][1]i32
  , length (flatten_3d (replicate 1 xss))
  , (unflatten_4d (flatten_4d (map (\xs -> [[xs]]) xss)) :> [n][1][1][m]i32)
  )
