-- Sums of rows that tempt inner loops to run in vectors.

-- Some elements lie side by side, others do not: every third one, backwards.
entry by_three [n][m] (a: [n][m]f32) (w: [m * 3]f32): [n]f32 =
  map (\row -> f32.sum (map2 (\x y -> (x - y) * y) row (w[1::3] :> [m]f32))) a
entry backwards [n][m] (a: [n][m]f64) (w: [m]f64): [n]f64 =
  map (\row -> f64.sum (map2 (\x y -> (x - y) * y) row w[::-1])) a

-- Adjoints of two rows beside a sum, which no later fold makes a product.
entry two_rows [n][k][d] (x: [n][d]f64) (a: [k][d]f64) (b: [k][d]f64) (s: [k]f64): ([k][d]f64, [k][d]f64, [k]f64) =
  vjp (\(a, b, s) -> f64.sum (map (\p ->
      let far u v t = f64.sum (map3 (\p u v -> ((p - u) / t) ** 2 * v) p u v)
      in f64.log (1 + f64.sum (map3 (\u v t -> 1 / (1 + far u v t ** 2)) a b s))) x)) (a, b, s) 1
