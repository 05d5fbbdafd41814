-- length, null, head, last, tail, init, take, drop, reverse, indices.
-- ==
-- input { [4, 5, 6] }
-- output { 3i64 false 4 6 [5, 6] [4, 5] [4, 5] [6] [6, 5, 4] [0i64, 1i64, 2i64] }
-- input { [7, 8] }
-- output { 2i64 false 7 8 [8] [7] [7, 8] empty([0]i32) [8, 7] [0i64, 1i64] }
entry main (xs: []i32) =
  (length xs, null xs, head xs, last xs, tail xs, init xs, take 2 xs, drop 2 xs, reverse xs, indices xs)
