-- Assertions in the iterations of maps and loops that do nothing else but add.

def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : *[n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

entry asserts_one_place [n] (xs: [n]f64) : [3]f64 =
  intrinsics.hist_stream (replicate 3 0) (+) 0
    (\(a: *intrinsics.acc ([3]f64)) x -> let y = assert (x < 1.5) x in put a 1 y) xs

entry asserts_own_place [n] (xs: [n]f64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x) -> let y = assert (x < 1.5) x in put a i y) (zip (iota n) xs)

entry asserts_in_nest [n][m] (w: [n][m]f64) : [m]f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (map2 (\a y -> assert (a < 1.5) (a * y)) r x)) w)) (replicate m 1) 1

entry asserts_in_iterations [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : [m][m]f64 =
  loop q = w for i < n do
    let g = mm xs[i] w
    let g = assert (i < 5) g
    in map2 (map2 (+)) q (mm (transpose g) xs[i])

entry asserts_by_product [n][m][k] (xs: [n][2][m]f64) (ys: [n][2][k]f64) : [m][k]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               assert (x[0, 0] < 1.5) (f64.sum (map2 (\r s -> f64.sum (map2 (*) r s)) (mm x w) y))) xs ys))
      (replicate m (replicate k 1)) 1
