-- map and map1 to map5.
-- ==
-- input { [1.0, 2.0] [3.0, 4.0] }
-- output { [2.0, 3.0] [4.0, 6.0] [4.0, 12.0] [7.0, 10.0] [7.0, 10.0] }
-- input { empty([0]f64) empty([0]f64) }
-- output { empty([0]f64) empty([0]f64) empty([0]f64) empty([0]f64) empty([0]f64) }
-- input { [1.0] [0.5] }
-- output { [2.0] [1.5] [1.5] [2.0] [2.0] }
entry main [n] (xs: [n]f64) (ys: [n]f64) =
  ( map (+ 1) xs
  , map2 (+) xs ys
  , map3 (\x y z -> x * y + z * x) xs ys xs
  , map4 (\a b c d -> a + b + c - d + b) xs ys ys ys
  , map5 (\a b c d e -> a + b + c + d - e) xs ys xs ys xs
  )
