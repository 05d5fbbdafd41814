-- f16: arithmetic and functions round to half precision.
-- ==
-- input { [1.0f16, 2048.0f16] }
-- output { [2.0f16, 2048.0f16] 2048.0f16 [1.0f16, 45.25f16] }
entry main (xs: []f16) =
  (map (+ 1) xs, f16.sum xs - 1, map f16.sqrt xs)
