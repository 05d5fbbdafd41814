-- Tuples, records and arrays as values; records and tuples are the same thing.
-- ==
-- entry: tuples
-- input { 3 }
-- output { 3 4.0f64 true [1i64, 2i64] }
entry tuples (x: i32): ((i32, f64), (bool, [2]i64)) = ((x, f64.i32 x + 1), (true, [1, 2]))

-- ==
-- entry: records
-- input { 1 2.5 }
-- output { 2.5 1 3 }
entry records (a: i32) (b: f64) =
  let r = {b, a, c = {d = a + 2}}
  in (r.b, r.a, r.c.d)

-- ==
-- entry: tuple_is_record
-- input { 7 8 }
-- output { 8 7 }
entry tuple_is_record (a: i32) (b: i32): {0: i32, 1: i32} =
  let t: (i32, i32) = {0 = b, 1 = a}
  in t

-- ==
-- entry: arrays
-- input { [[1, 2], [3, 4], [5, 6]] }
-- output { 3i64 2i64 [[1, 2], [3, 4], [5, 6], [7, 7]] [0, 0] }
entry arrays [n] [m] (xss: [n][m]i32) =
  (n, m, xss ++ [replicate m 7], replicate m 0)

-- ==
-- entry: nothing
-- input { }
-- output { }
entry nothing: () = ()

-- ==
-- entry: trailing_commas
-- input { }
-- output { 1 2 3 [4, 5] }
entry trailing_commas: ((i32, i32,), {x: i32, y: [2]i32,}) = ((1, 2,), {x = 3, y = [4, 5,],})

-- ==
-- entry: arrays_of_compound
-- input { [1, 2] }
-- output { [1, 2] [true, false] [[1, 1], [2, 2]] }
entry arrays_of_compound [n] (xs: [n]i32): [n]{a: i32, b: (bool, [2]i32)} =
  map (\x -> {a = x, b = (x < 2, [x, x])}) xs
