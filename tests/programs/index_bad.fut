-- An index out of bounds is an error that names the place.
-- ==
-- input { [1, 2, 3] 3i64 } error: index_bad.fut:7
-- input { [1, 2, 3] -1i64 } error: index_bad.fut:7
-- input { [1, 2, 3] 2i64 } output { 3 }
entry main (xs: []i32) (i: i64): i32 =
  xs[i]
