-- jvp and jvp2 of scalar, tuple and array functions.
-- ==
-- input { 2.0 3.0 }
-- output { 12.0 6.0 15.0 8.0 [4.0, 6.0] [2.0, 2.0] }
entry main (x: f64) (y: f64) =
  let f (a: f64, b: f64) = a * b
  let (v, d) = jvp2 f (x, y) (1, 4)
  let (vs, ds) = jvp2 (map (* 2)) [x, y] [1, 1]
  in (jvp (\a -> a * a * a) x 1, v, d + 4, jvp f (x, y) (0, 4), vs, ds)
