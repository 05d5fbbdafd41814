-- Loops with products in maps that stay inside: an entry for each condition.

def mv [m][n] (a: [m][n]f64) (x: [n]f64): [m]f64 = map (\row -> f64.sum (map2 (*) row x)) a

entry own_iterations [n][h] (u: [h][h]f64) (xs: [n][h]f64) (ks: [n]i64): [n][h]f64 =
  map2 (\x k -> loop s = x for _i < i64.abs k % 4 do mv u s) xs ks

entry own_sizes [n][h] (u: [h][h]f64) (xs: [n][h]f64) (ks: [n]i64): [n]f64 =
  map2 (\x k -> let q = replicate (i64.abs k % 3) 0.5
                let (s, q) = loop (s, q) = (x, q) for _i < 3 do (mv u s, map (+ s[0]) q)
                in f64.sum s + f64.sum q) xs ks

-- Loops that come out of their maps: which of the rows that an iteration reads come out of the map, too.
entry layers [l][n][h] (u: [l][h][h]f64) (xs: [n][h]f64): [n][h]f64 =
  map (\x -> loop s = x for i < l do mv u[i] s) xs

entry own_layers [l][n][h] (v: [h][h]f64) (us: [n][l][h][h]f64) (xs: [n][h]f64): [n][h]f64 =
  map2 (\u x -> loop s = x for i < l do mv v (mv u[i] s)) us xs

entry last_layer [n][h] (v: [h][h]f64) (u: [n][h][h]f64) (xs: [n][h]f64): [n][h]f64 =
  let k = n - 1
  in map (\x -> loop s = x for _i < 3 do mv v (mv u[k] s)) xs
