-- assert
-- ==
-- input { 3 } output { 9 }
-- input { -3 } error: asserts.fut:6
entry main (n: i32): i32 =
  assert (n > 0) (n * n)
