-- Derivatives of derivatives: the Hessian by jvp of vjp, and of vjp.
-- ==
-- input { [1.0, 2.0] }
-- output { [[2.0, 0.0], [0.0, 2.0]] 12.0 [6.0, 12.0] }
entry main [n] (xs: [n]f64) =
  let one_hot i = tabulate n (\j -> f64.bool (i == j))
  let f ys = f64.sum (map (\y -> y * y) ys)
  let g ys = f64.sum (map (\y -> y * y * y) ys)
  let hessian = tabulate n (\i -> jvp (\x -> vjp f x 1) xs (one_hot i))
  in ( hessian
     , vjp (\x -> vjp (\y -> y * y * y) x 1) xs[1] 1
     , vjp (\x -> f64.sum (vjp g x 1)) xs 1
     )
