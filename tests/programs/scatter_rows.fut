-- Scattering rows, and pairs.
-- ==
-- input { [2i64, 0i64] [[1, 2], [3, 4]] }
-- output { [[3, 4], [0, 0], [1, 2]] [9i32, 8i32] [false, true] }
entry main (is: [2]i64) (rows: [2][2]i32) =
  let (xs, bs) = unzip (scatter [(9, false), (9, false)] [1, 2] [(8i32, true), (7, true)])
  in (scatter (replicate 3 [0, 0]) is rows, xs, bs)
