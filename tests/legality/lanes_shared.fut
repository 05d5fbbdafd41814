-- Programs that tempt lanes to add to one place at once, which vectors show.
-- at -O3

-- Derivatives that iterations add to rows that they share.
-- ==
-- entry: rows_shared
-- input { [[1.0], [1.0]] [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
--   [0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64, 0i64] [1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64, 1i64] }
-- output { [[0.0], [16.0]] }
entry rows_shared [m][d][n] (xs: [m][d]f64) (ws: [n]f64) (is: [n]i64) (js: [n]i64): [m][d]f64 =
  vjp (\xs -> f64.sum (map3 (\i j w -> f64.sum (map2 (\a b -> f64.exp (-a * a * w) * b) xs[i] xs[j])) is js ws)) xs 1
