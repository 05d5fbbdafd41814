-- scan and exscan, with tuples too.
-- ==
-- input { [1i64, 2i64, 3i64] }
-- output { [1i64, 3i64, 6i64] [0i64, 1i64, 3i64] [1i64, 2i64, 6i64] [1i64, 3i64, 6i64] }
-- input { empty([0]i64) }
-- output { empty([0]i64) empty([0]i64) empty([0]i64) empty([0]i64) }
entry main (xs: []i64) =
  let (products, sums) = unzip (scan (\(a, b) (c, d) -> (a * c, b + d)) (1, 0) (zip xs xs))
  in (scan (+) 0 xs, exscan (+) 0 xs, products, sums)
