-- hist, reduce_by_index and its 2-d form; bins out of range are ignored.
-- ==
-- input { [0i64, 2i64, 0i64, -1i64, 3i64] [1, 2, 3, 4, 5] }
-- output { [4, 0, 2] [14, 10, 12] [[4, 0], [0, 7]] }
-- input { empty([0]i64) empty([0]i32) }
-- output { [0, 0, 0] [10, 10, 10] [[0, 0], [0, 0]] }
entry main [n] (is: [n]i64) (vs: [n]i32) =
  ( hist (+) 0 3 is vs
  , reduce_by_index (replicate 3 10) (+) 0 is vs
  , reduce_by_index_2d (replicate 2 (replicate 2 0)) (+) 0 (map (\i -> (i / 2, i / 2)) is) vs
  )
