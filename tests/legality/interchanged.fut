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

-- Loops whose iterations write rows: what is read stays, and so do rows of which a point shows the place, or what they
-- were before, or that there are any.
entry rows_read [n][t][h] (u: [h][h]f64) (xs: [n][t][h]f64): [n][t][h]f64 =
  map (\x -> loop hs = replicate t (replicate h 1) for i < t do
              hs with [i] = map2 (+) x[i] (mv u (copy hs[i]))) xs

entry rows_by_point [n][t][h] (u: [h][h]f64) (xs: [n][t][h]f64): [n][t][h]f64 =
  map2 (\x k -> (loop (s, hs) = (replicate h 1, replicate t (replicate h 0)) for i < t do
                   let s = map2 (+) x[i] (mv u s)
                   in (s, hs with [(i + k) % t] = s)).1) xs (iota n)

entry rows_of_point [n][t][h] (u: [h][h]f64) (xs: [n][t][h]f64) (ys: [n]f64): [n][t][h]f64 =
  map2 (\x y -> (loop (s, hs) = (replicate h 1, replicate t (replicate h y)) for i < t do
                   let s = map2 (+) x[i] (mv u s)
                   in (s, hs with [i] = s)).1) xs ys

entry rows_if_any [h] (u: [h][h]f64) (x: [h]f64) (k: i64): []f64 =
  let k = k % 5 - 2
  in map (\j -> let (_, hs) = loop (s, hs) = (map (+ f64.i64 j) x, replicate k (replicate h 0)) for i < k do
                  let s = mv u s
                  in (s, hs with [i] = s)
                in f64.sum (map f64.sum hs)) (iota (i64.max 0 k))
