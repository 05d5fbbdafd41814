-- vjp and vjp2 of scalar, tuple and array functions, with captured values.
-- ==
-- input { [1.0, 2.0, 3.0] 2.0 }
-- output { [2.0, 4.0, 6.0] 28.0 [2.0, 4.0, 6.0] 3.0 2.0 [2.0, 2.0, 2.0] 14.0 }
-- input { empty([0]f64) 2.0 }
-- output { empty([0]f64) 0.0 empty([0]f64) 3.0 2.0 empty([0]f64) 0.0 }
entry main [n] (xs: [n]f64) (k: f64) =
  let square_sum ys = f64.sum (map (\y -> y * y) ys)
  let (v, g) = vjp2 (\ys -> k * square_sum ys) xs 0.5
  let (a, b) = vjp (\(p, q) -> p * q) (k, 3) 1
  in (vjp square_sum xs 1, v, map (/ 1) g, a, b, vjp (map (* k)) xs (replicate n 1), vjp (\c -> f64.sum (map (\x -> c * x * x) xs)) k 1)
