-- What is done for devices: an entry for each condition.

entry iterations_differ [n][m] (xs: [n][m]f64) (ks: [n]i64) : [n][m]f64 =
  map2 (\x k -> loop y = x for _i < k do map (\v -> f64.sin v + 1) y) xs ks

entry beside [n][m] (xs: [n][m]f64) (k: i64) : ([n][m]f64, [n]f64) =
  unzip (map (\x -> let s = f64.sum x
                    let y = loop y = x for _i < i64.min k 5 do map (\v -> f64.sin v + s) y
                    in (y, s)) xs)

entry rows_written [m] (x: [m]f64) (y: [m]f64) : [2][m]f64 =
  let g = replicate 2 (replicate m 0)
  let g[1, 0] = 5
  let g[1] = map (* g[1, 0]) y
  let g[0, 0] = 5
  let g[1] = map (+ 1) x
  in map (map (* 2)) g

entry row_left [m] (x: [m]f64) : [3][m]f64 =
  let g = replicate 3 (replicate m 1)
  let g[0] = map (+ 1) x
  let g[1] = map (+ 2) x
  in map (map (* 2)) g

entry row_seen [m] (x: [m]f64) : ([2][m]f64, f64) =
  let g = replicate 2 (replicate m 1)
  let g[0] = map (+ 1) x
  let s = f64.sum (map f64.sum g)
  let g[1] = map (+ 2) x
  in (map (map (* 2)) g, s)

entry searched [n] (xs: [n]f64) (ys: [n]f64) : (f64, i64) =
  let m = f64.minimum xs
  let i = i64.minimum (map2 (\y j -> if y == m then j else n) ys (iota n))
  in (m, i)

entry summed [n] (xs: [n]f64) : (f64, i64) =
  let m = f64.sum xs
  let i = reduce i64.min n (map2 (\y j -> if y == m then j else n) xs (iota n))
  in (m, i)

entry picked [n][m] (xs: [n][m]f64) (is: [n]i64) : [n]f64 =
  map2 (\x i -> f64.sum (map (* 2) x[0:i % (m + 1)]) + f64.maximum (scan (+) 0 x)) xs is

entry columns [n][m] (w: [n][m]f64) : [m]f64 =
  vjp (\b -> f64.sum (map (\r -> f64.sum (map2 (*) r (map f64.sin b))) w)) (replicate m 1) 1

entry bias [n][m] (w: [n][m]f64) (b: [m]f64) (c: [m]f64) : [m]f64 =
  map2 (+) c (vjp (\b -> f64.sum (map (\r -> f64.sum (map2 (\x y -> f64.tanh (x + y)) r b)) w)) b 1)

entry minima [n][m] (xs: [n][m]f64) (ys: [n][m]f64) : [n][n]f64 =
  map (\x -> map (\y -> reduce f64.min 1 (map2 (\a b -> (a - b) * (a - b)) x y)) ys) xs

entry by_pair [n][m] (xs: [n][m]f64) (ys: [n][m]f64) : [n][n]f64 =
  map (\x -> map (\y -> let s = y[0] in f64.sum (map2 (\a b -> (a - b) * (a - s)) x y)) ys) xs

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : [n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

entry reversed [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n do
    let g = mm xs[i] w
    in (map2 (map2 (\x y -> f64.sin (x + y))) p g, map2 (map2 (+)) q (mm (transpose g) xs[n - 1 - i]))

entry fewer [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n / 2 do
    let g = mm xs[i] w
    in (map2 (map2 (\x y -> f64.sin (x + y))) p g, map2 (map2 (+)) q (mm (transpose g) xs[i]))

entry seen [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n do
    let g = mm xs[i] w
    in (map2 (map2 (\x y -> f64.sin (x + y))) p q, map2 (map2 (+)) q (mm (transpose g) xs[i]))

-- Iterations have another dimension's parts, in another order.
entry backwards [n][m] (xs: [m][n][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n do
    let x = reverse xs[:, i]
    let p = map2 (map2 (\x y -> f64.sin (x + y))) p (mm x w)
    in (p, map2 (map2 (+)) q (mm (transpose p) x))

-- A sum of products of what is carried, and of itself.
entry self [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  let w = map (map (\x -> f64.sin x / 9)) w
  in loop (p, q) = (w, w) for i < n do
    let p = map2 (map2 (\x y -> f64.sin (x + y))) p (mm xs[i] w)
    in (p, map2 (map2 (+)) q (mm q p))

def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v

entry twice [n] (is: [n]i64) : [3]f64 =
  intrinsics.hist_stream (replicate 3 1) (+) 0
    (\(a: *intrinsics.acc ([3]f64)) i -> put (put a (i % 3) 1) ((i + 1) % 3) (f64.i64 i)) is

entry products [n] (is: [n]i64) : [3]f64 =
  intrinsics.hist_stream (replicate 3 1) (*) 1 (\(a: *intrinsics.acc ([3]f64)) i -> put a (i % 3) 1.5) is

entry folded_rows [n][m] (xs: [n][4][m]f64) : [n][m]f64 =
  map (\x -> reduce (\a b -> let s = a[0] in map2 (\u v -> u + v + 0 * s) a b) (replicate m 0) x) xs

-- The adjoint that rows are added to has those of the queries in it.
entry weighted [n][d] (xs: [n][d]f64) (vs: [n][d]f64) (y: [n][d]f64) : [n][d]f64 =
  vjp (\xs -> map (\q -> let ws = map (\x -> f64.exp (-(f64.sum (map2 (\a b -> (a - b) * (a - b)) q x)))) xs
                         in map (\v -> f64.sum (map2 (*) ws v)) (transpose vs)) xs) xs y

-- The products of an inner batch have one factor in common.
entry batches_share [b][n][k] (ws: [b][k][k]f64) (xs: [b][n][k][k]f64) : [b][n][k][k]f64 =
  map2 (\w x -> map (\y -> mm w (transpose y)) x) ws xs

entry batches_own [b][n][k] (ws: [b][n][k][k]f64) (xs: [b][n][k][k]f64) : [b][n][k][k]f64 = map2 (map2 mm) ws xs

-- What a product takes along: sums of rows, and nothing else.
entry rows_greatest [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : ([n]f64, [n][k]f64) =
  (map (\r -> reduce f64.max 0 r) a, mm a b)

entry sums_needed [n][m] (a: [n][m]f64) (c: [m]f64) : ([n]f64, [n][n]f64) =
  let s = map f64.sum a
  in (s, mm a (map (\x -> map (\y -> f64.sin (x * y)) s) c))
