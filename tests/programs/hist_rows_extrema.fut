-- Derivatives of histograms of rows whose operator is min or max, element by element: the destination has the adjoint
-- of a bin that it decides, else the first value that does.  Bins out of range, ties, rows of rows, no values.

-- ==
-- entry: of_rows
-- input { [[1f64, 5f64], [0f64, 0f64]] [0i64, 1i64, 0i64, -1i64, 0i64, 1i64]
--         [[1f64, 6f64], [2f64, -1f64], [3f64, 6f64], [9f64, 9f64], [3f64, 2f64], [2f64, -3f64]]
--         [[1f64, 10f64], [100f64, 1000f64]] }
-- output { [[0f64, 0f64], [0f64, 1000f64]]
--          [[0f64, 10f64], [100f64, 0f64], [1f64, 0f64], [0f64, 0f64], [0f64, 0f64], [0f64, 0f64]] }
-- input { [[1f64, 2f64]] empty([0]i64) empty([0][2]f64) [[3f64, 4f64]] }
-- output { [[3f64, 4f64]] empty([0][2]f64) }
entry of_rows [k][n][m] (start: [k][m]f64) (bins: [n]i64) (values: [n][m]f64) (w: [k][m]f64) =
  vjp (\(d, vs) -> reduce_by_index (copy d) (map2 f64.max) (replicate m f64.lowest) bins vs) (start, values) w

-- ==
-- entry: of_matrices
-- input { [1i64, 0i64, 1i64] [[[1f64, 2f64]], [[3f64, 4f64]], [[0f64, 2f64]]] }
-- output { [[[0f64, 2f64]], [[3f64, 4f64]], [[1f64, 0f64]]] }
entry of_matrices [n][m] (bins: [n]i64) (values: [n][1][m]f64) =
  let least vs = reduce_by_index (replicate 2 (replicate 1 (replicate m f64.highest))) (map2 (map2 f64.min))
                                 (replicate 1 (replicate m f64.highest)) bins vs
  in vjp least values (map (map (map (\x -> if x == 0 then 1 else x))) (least values))
