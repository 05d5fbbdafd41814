-- any, all, or, and.
-- ==
-- input { [1, 2, 3] }
-- output { true false true false }
-- input { empty([0]i32) }
-- output { false true false true }
entry main (xs: []i32) =
  let big = map (> 2) xs
  in (any (> 2) xs, all (> 2) xs, or big, and big)
