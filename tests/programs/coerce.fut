-- `:>` checks sizes at run time.
-- ==
-- input { [1, 2, 3] 3i64 } output { [1, 2, 3] 6 }
-- input { [1, 2, 3] 2i64 } error: coerce.fut:7
-- input { empty([0]i32) 0i64 } output { empty([0]i32) 0 }
entry main (xs: []i32) (n: i64): ([n]i32, i32) =
  let ys = xs :> [n]i32
  in (ys, i32.sum (map2 (\y _ -> y) ys (iota n)))
