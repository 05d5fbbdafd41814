-- concat, ++, rotate by any amount, split.
-- ==
-- input { [1, 2, 3] [4, 5] 1i64 }
-- output { [1, 2, 3, 4, 5] [4, 5, 4, 5] [2, 3, 1] [3, 1, 2] [2, 3, 1] [1] [2, 3] }
-- input { [1] empty([0]i32) 0i64 }
-- output { [1] empty([0]i32) [1] [1] [1] empty([0]i32) [1] }
entry main [n] (xs: [n]i32) (ys: []i32) (k: i64) =
  let rest = n - k
  let (a, b) = split (xs :> [k + rest]i32)
  in (concat xs ys, ys ++ ys, rotate 1 xs, rotate (-1) xs, rotate 4 xs, a :> [k]i32, b :> [rest]i32)
