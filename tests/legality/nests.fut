-- Nests that are split, taken out of loops, or made of other elements: an entry for each condition.

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : *[n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

-- All of a row is written, from its end.
entry row_reversed [m] (x: [m]f64) (y: [m]f64) : [2][m]f64 =
  let g = replicate 2 (replicate m 0)
  let g[0, ::-1] = map (+ 1) y
  let g[1] = map (+ 2) x
  in map (map (* 2)) g

-- A fold's operator looks at another element of its row.
entry folded_across [n][m] (xs: [n][4][m]f64) : [n][m]f64 =
  map (\x -> reduce (\a b -> map2 (\u v -> u + v + 0 * a[i64.f64 u % m]) a b) (replicate m 0) x) xs

-- Between two parts of a map that are parallel lies an array of the iteration's own size.
entry irregular_parts [n][m] (xs: [n][m]f64) (ks: [n]i64) : ([n]f64, [n][m][m]f64) =
  unzip (map2 (\x k -> let q = i64.abs k % 5 + 1
                       let t = scan (+) 0 (map f64.i64 (iota q))
                       let s = f64.sum (map (\j -> t[j % q]) (iota m))
                       let z = mm (map (\v -> map (* v) x) x) (map (\v -> map (+ v) x) x)
                       in (s, map (map (* s)) z)) xs ks)

-- Each iteration joins another row of its matrix to the first.
entry parts_vary [n][m][k] (xs: [n][k][m]f64) (js: [n]i64) (w: [m][m]f64) : ([n][]f64, [n][m][m]f64) =
  unzip (map2 (\x j -> let r = (x[j % k] ++ x[0]) :> [2 * m]f64
                       let z = mm (map (\v -> map (* v) x[1 % k]) x[1 % k]) w
                       in (r, z)) xs js)

-- Two iterations of a loop read the same part.
entry half_iteration [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n do
    let g = mm xs[i / 2] w
    in (map2 (map2 (\x y -> f64.sin (x + y))) p g, map2 (map2 (+)) q (mm (transpose g) xs[i / 2]))

-- Two equal arrays of a size that only their branches know.
entry equal_sizes [n] (xs: [n]f64) (k: i64) : (f64, []f64) =
  let ys = if k > 1 then scan (+) 0 xs[0:n / 2] else scan (+) 0 xs[n / 2:]
  let zs = if k > 1 then scan (+) 0 xs[0:n / 2] else scan (+) 0 xs[n / 2:]
  in (f64.sum (scan (*) 1 zs), map (+ 1) ys)

-- Rows that are transposed, and returned too.
entry rows_too [n] (xs: [n]f64) (ys: [n]f64) : ([2][n]f64, [n][2]f64) =
  let a = scan (+) 0 xs
  let b = scan (*) 1 ys
  let rows = map2 (\x y -> [x, y]) a b
  in (transpose rows, rows)

-- Rows of an array of matrices are matrices.
entry middle_rows [n][m] (a: [3][n][m]f64) : ([m][n]f64, [m]f64) =
  unzip (map (\x -> (x[1], f64.sum x[0])) (transpose (map transpose a)))

-- What is folded of a pair depends on the pair.
entry by_left [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (ss: [n]f64) : [n]f64 =
  map2 (\x s -> f64.minimum (map (\y -> f64.sum (map2 (\a b -> (a - b) * (a - s)) x y)) ys)) xs ss

entry by_right [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (ss: [n]f64) : [n][n]f64 =
  map (\x -> map2 (\y s -> f64.sum (map2 (\a b -> (a - b) * (a - s)) x y)) ys ss) xs
