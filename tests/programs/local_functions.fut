-- Local functions: with sizes, polymorphic, capturing, nested, shadowing.
-- ==
-- input { [1, 2, 3] 10 }
-- output { [11, 12, 13] 6 3i64 [3, 4, 5] 24 }
entry main [n] (xs: [n]i32) (k: i32) =
  let add [m] (ys: [m]i32): [m]i32 = map (+ k) ys
  let total ys = i32.sum ys
  let count 'a (ys: []a) = length ys
  let k = 1
  let inc x = let inc y = y + k in inc (inc x)
  in (add xs, total xs, count xs, map inc xs, total (map (\x -> inc x * 2) xs))
