-- Equality of tuples, records and arrays.
-- ==
-- input { [1, 2] [1, 2] }
-- output { true false true false true true }
-- input { [1, 2] [1, 3] }
-- output { false true true false true false }
entry main [n] (xs: [n]i32) (ys: [n]i32) =
  ( xs == ys
  , xs != ys
  , (1i32, true) == (1, true)
  , {a = 1i32} == {a = 2}
  , [[1i32]] == [[1]]
  , (xs, n) == (ys, n)
  )
