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

-- Several type parameters in any order, with or without space between them.
-- ==
-- entry: several
-- input { [[1, 2], [3, 4], [5, 6]] }
-- output { 3i64 2i64 21 5i64 }
entry several [n][m] (xss: [n][m]i32) =
  let shape [p][q] 'a (_: [p][q]a) = (p, q)
  let total 'a [p] 'b [q][r] (f: a -> b -> i32) (xss: [p][q]a) (yss: [q][r]b) =
    i32.sum (map (\xs -> i32.sum (map2 (\x ys -> i32.sum (map (f x) ys)) xs yss)) xss)
  let (a, b) = shape xss
  in (a, b, total (\x y -> if y then x else 0) xss (replicate m [true]), (shape (replicate 5 [0])).0)
