-- Programs that tempt devices to cut rows, write them together, or lay what a thread has for itself side by side: an
-- entry for each condition.

-- Each row is scanned by another operator.
entry moduli [n][m] (xs: [n][m]i64): [n][m]i64 =
  map2 (\k x -> scan (\a b -> (a + b) % (k + 2)) 0 (map (% (k + 2)) x)) (iota n) xs

-- Each row has keys below another number (rows without keys: onesort.core).
entry bounds [n][m] (xs: [n][m]i64) (ks: [n]i64): [n][m]i64 =
  map2 (\x k -> intrinsics.argsort_below (k + 1) (map (% (k + 1)) x)) xs ks

-- Rows without elements assert something.
entry no_columns [n][m] (xs: [9][m]f64) (is: [n][3]i64): [n][m]f64 =
  map (\i -> reduce (map2 (+)) (replicate m 0) (map (\k -> map (* 2) (assert (k < -9) xs[k % 9])) i)) is

-- The first iteration reads a row that lies in one piece.
entry given [n][m] (xs: [n][m]f64) (t: i64): [n]f64 =
  map (\x -> let a = loop a = x for i < t % 5 do #[sequential] map2 (\y j -> y * 0.5 + a[(j + i) % m]) a (iota m)
             in loop s = 0 for y in a do s * 0.9 + y) xs

-- What a thread has for itself is sorted.
entry sorted [n][m] (xs: [n][m]i64): [n]i64 =
  map (\x -> let order = #[sequential] intrinsics.argsort_below 7 (map (% 7) x)
             in loop s = 0 for i in order do s * 3 + i) xs

-- A thread writes some of a row, or an element of it once more.
entry by_columns [n] (xs: [n]f64): [n][4]f64 =
  loop a = replicate n (replicate 4 0) for i < 4 do a with [:, i] = map (\x -> f64.sin x + f64.i64 i) xs

entry chosen [n] (xs: [n]f64): [n][4]f64 =
  map (\x -> [x, x + 1, f64.sin x, 2 - x] with [i64.f64 (f64.abs x * 1000) % 4] = -x) xs

-- Bins of two types.
entry two_types [n] (xs: [n]f64) (is: [n]i64): ([3]f64, [3]f32) =
  vjp (\(a: [3]f64, b: [3]f32) -> f64.sum (map2 (\x i -> f64.sin (x * a[i % 3]) + f64.f32 (f32.cos b[i % 3])) xs is))
    ([1, 2, 3], [1, 2, 3]) 1

-- Matrices of a thread's own are multiplied, where points are many.
-- ==
-- entry: products
-- random input { [3000]f64 [3000]i64 [3]f64 }
entry products [n][m] (xs: [n]f64) (ks: [n]i64) (_: [m]f64): [n]f64 =
  map2 (\x k ->
    let a = tabulate_2d m m (\i j -> x * f64.i64 (i + 2 * j) / 9)
    let b = loop b = a for _i < k % 3 do map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose a)) b
    in loop s = 0 for r in b do s * 0.9 + f64.sum r) xs ks
