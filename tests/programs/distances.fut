-- Distances of all pairs of points, by the sum of squares, of magnitudes, or by the largest difference.
def all_pairs [n][m][d] 'a 'b (f: [d]a -> [d]a -> b) (xs: [n][d]a) (ys: [m][d]a) : [n][m]b =
  map (\x -> map (f x) ys) xs
def square [d] (x: [d]f64) (y: [d]f64) : f64 = f64.sum (map2 (\a b -> (a - b) * (a - b)) x y)
def manhattan [d] (x: [d]f64) (y: [d]f64) : f64 = f64.sum (map2 (\a b -> f64.abs (b - a)) x y)
def largest [d] (x: [d]f64) (y: [d]f64) : f64 = f64.maximum (map2 (\a b -> f64.abs (a - b)) x y)
def nearest [m] (ds: [m]f64) : (f64, i64) =
  reduce_comm (\(a, i) (b, j) -> if a < b || (a == b && i < j) then (a, i) else (b, j)) (f64.inf, m) (zip ds (iota m))

-- ==
-- entry: squares
-- input { [[0.0, 0.0, 1.0], [3.0, 4.0, 1.0]] [[0.0, 0.0, 1.0], [1.0, 2.0, 3.0], [3.0, 4.5, 1.0]] }
-- output { [[0.0, 9.0, 29.25], [25.0, 12.0, 0.25]] }
-- input { [[1000000001.0, 1.0]] [[1000000000.0, 1.5], [1000000001.0, 1.0]] } output { [[1.25, 0.0]] }
-- input { empty([0][2]f64) [[1.0, 2.0]] } output { empty([0][1]f64) }
entry squares [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = all_pairs square xs ys

-- ==
-- entry: magnitudes
-- input { [[0.0, 0.0, 1.0], [3.0, 4.0, 1.0]] [[0.0, 0.0, 1.0], [1.0, 2.0, 3.0]] } output { [[0.0, 5.0], [7.0, 6.0]] }
entry magnitudes [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = all_pairs manhattan xs ys

-- ==
-- entry: largest_differences
-- input { [[0.0, 0.0, 1.0], [3.0, 4.0, 1.0]] [[0.0, 0.0, 1.0], [1.0, 2.0, 3.0]] } output { [[0.0, 2.0], [4.0, 2.0]] }
entry largest_differences [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = all_pairs largest xs ys

-- The nearest of some points; two are the same, and the first one counts.
-- ==
-- entry: nearest_points
-- input { [[0.0, 1.0], [5.0, 5.0]] [[9.0, 9.0], [4.0, 5.0], [0.0, 0.0], [0.0, 0.0]] } output { [1.0, 1.0] [2i64, 1i64] }
entry nearest_points [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  unzip (map (\x -> nearest (map (square x) ys)) xs)

-- ==
-- entry: cost_gradient
-- input { [[0.0, 1.0], [5.0, 5.0]] [[9.0, 9.0], [4.0, 5.0], [0.0, 0.0]] }
-- output { [[0.0, 0.0], [-2.0, 0.0], [0.0, -2.0]] }
entry cost_gradient [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  vjp (\ys -> f64.sum (map (\x -> f64.minimum (map (square x) ys)) xs)) ys 1
