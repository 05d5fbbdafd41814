-- Sums of rows that tempt inner loops to run in vectors.

-- Some elements lie side by side, others do not: every third one, backwards.
entry by_three [n][m] (a: [n][m]f32) (w: [m * 3]f32): [n]f32 =
  map (\row -> f32.sum (map2 (\x y -> (x - y) * y) row (w[1::3] :> [m]f32))) a
entry backwards [n][m] (a: [n][m]f64) (w: [m]f64): [n]f64 =
  map (\row -> f64.sum (map2 (\x y -> (x - y) * y) row w[::-1])) a
