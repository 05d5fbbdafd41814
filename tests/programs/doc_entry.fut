-- Several entries, one calling another, tuples and records across the boundary.
-- ==
-- entry: inc
-- input { [1, 2] } output { [2, 3] }

-- ==
-- entry: both
-- input { [1, 2] } output { [2, 3] [3, 4] 2i64 }

-- | Adds one.
entry inc (xs: []i32) = map (+ 1) xs

entry both [n] (xs: [n]i32): ([n]i32, [n]i32, i64) =
  let ys = inc xs
  in (ys, inc ys, n)

-- `main` is an entry whether it says so or not.
-- ==
-- entry: main
-- input { 2i32 }
-- output { 6i32 }
def main (x: i32) = x * 3
