-- Functions on arrays: every one computes the same on every backend.
-- ==
-- entry: shapes
-- input { [1, 2, 3] [[1, 2], [3, 4]] }
-- output { 3i64 false 1 3 [2, 3] [1, 2] [3, 2, 1] [1, 2] [3] [2, 3, 1] [1, 2, 3, 1, 2, 3] [[1, 3], [2, 4]] [1, 2, 3, 4] }
entry shapes (xs: [3]i32) (a: [2][2]i32) =
  ( length xs, null xs, head xs, last xs, tail xs, init xs, reverse xs, take 2 xs, drop 2 xs
  , rotate 1 xs, xs ++ xs, transpose a, flatten a)

-- ==
-- entry: building
-- input { 3i64 }
-- output { [0i64, 1i64, 2i64] [7, 7, 7] [0i64, 2i64, 4i64] [[0i64, 1i64], [10i64, 11i64]] [[0i64, 1i64], [2i64, 3i64]] [1i64, 2i64] [3i64, 4i64] }
entry building (n: i64) =
  let (a, b) = unzip [(1i64, 3i64), (2, 4)]
  in (iota n, replicate n 7i32, tabulate n (* 2), tabulate_2d 2 2 (\i j -> 10 * i + j), unflatten (iota 4 :> [2 * 2]i64), a, b)

-- ==
-- entry: maps
-- input { [1, 2, 3] [4, 5, 6] }
-- output { [2, 3, 4] [5, 7, 9] [6, 9, 12] }
entry maps (xs: [3]i32) (ys: [3]i32) = (map (+ 1) xs, map2 (+) xs ys, map3 (\x y z -> x + y + z) xs ys xs)

-- ==
-- entry: folds
-- input { [3, 1, 2] }
-- output { 6 6 1 3 [3, 4, 6] [3, 3, 6] true false 3 0 }
entry folds (xs: [3]i32) =
  ( reduce (+) 0 xs, reduce_comm (*) 1 xs, i32.minimum xs, i32.maximum xs
  , scan (+) 0 xs, scan (*) 1 xs, any (> 2) xs, all (> 1) xs, foldl (\a x -> x - a) 0 xs - 1, foldr (\x a -> x - a) 0 xs - 4)

-- ==
-- entry: selection
-- input { [3, -1, 2, -5] }
-- output { [3, 2] [3, 2] [-1, -5] [3] [2] [-1, -5] }
entry selection (xs: []i32) =
  let (p, q) = partition (> 0) xs
  let (a, b, c) = partition2 (> 2) (> 0) xs
  in (filter (> 0) xs, p, q, a, b, c)

-- ==
-- entry: empty
-- input { empty([0]i32) }
-- output { 0 empty([0]i32) empty([0]i32) 2147483647 empty([0]i32) }
entry empty (xs: []i32) = (i32.sum xs, scan (+) 0 xs, map (+ 1) xs, i32.minimum xs, filter (> 0) xs)
