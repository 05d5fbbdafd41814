-- reduce and reduce_comm, also of nothing and of one element.
-- ==
-- input { [1i64, 2i64, 3i64, 4i64] }
-- output { 10i64 24i64 4i64 1i64 }
-- input { empty([0]i64) }
-- output { 0i64 1i64 -9223372036854775808i64 9223372036854775807i64 }
-- input { [7i64] }
-- output { 7i64 7i64 7i64 7i64 }
entry main (xs: []i64) =
  ( reduce (+) 0 xs
  , reduce_comm (*) 1 xs
  , reduce i64.max i64.lowest xs
  , reduce i64.min i64.highest xs
  )
