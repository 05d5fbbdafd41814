-- Each iteration of the gradient's loop adds to the same few places several times.
def f [n] (one: [2]f64) (ys: [n][2][2]f64) : [n][2][2]f64 =
  map (\_ -> map (\_ -> map (\_ -> f64.sum one) one) one) ys

-- ==
-- entry: main
-- input { [1.0, 2.0] [[[1.0, 2.0], [3.0, 4.0]], [[0.5, -1.0], [0.25, 8.0]], [[0.0, 1.0], [-2.0, 0.5]]] }
-- output { [17.25, 17.25] }
-- input { [1.0, 2.0] empty([0][2][2]f64) }
-- output { [0.0, 0.0] }
entry main [n] (one: [2]f64) (ys: [n][2][2]f64) : [2]f64 = vjp (\x -> f x ys) one ys
