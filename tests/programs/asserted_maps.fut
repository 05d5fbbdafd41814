-- Maps that assert something of folds, and have no other result that is used.
-- ==
-- entry: rows
-- input { 2.0 [[0.1, 0.2], [0.3, 0.4]] } output { [2.0, 2.0] }
-- input { 2.0 [[0.1, 0.2], [0.3, 0.7]] } error: any
-- input { 2.0 empty([0][0]f64) } output { empty([0]f64) }
entry rows [n] (a: f64) (w: [n][n]f64): [n]f64 =
  map (\v -> let _checked = assert (!(any (\z -> z > 0.6) v)) 1i64 in a) w
