-- filter, partition and partition2: results of sizes known only at run time.
-- ==
-- input { [5, 2, 8, 1, 9] }
-- output { [5, 8, 9] [2, 1] [5, 8, 9] [2] [1] [5, 8, 9] 3i64 }
-- input { empty([0]i32) }
-- output { empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) 0i64 }
-- input { [1] }
-- output { empty([0]i32) [1] empty([0]i32) empty([0]i32) [1] empty([0]i32) 0i64 }
entry main (xs: []i32) =
  let big = filter (> 2) xs
  let (no, yes) = partition (<= 2) xs
  let (a, b, c) = partition2 (> 2) (== 2) xs
  in (big, no, a, b, c, yes, length big)
