-- Layers of a convolutional net, in three of the ways that they are written: sums in sums over a batch, at a stride, and
-- with channels last.

def batch [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64) : f64 =
  let m = r / 2
  let at i b y z = if y < 0 || y >= h || z < 0 || z >= w then 0 else x[i, b, y, z]
  let pixel i a y z =
    f64.sum (map (\b -> f64.sum (map (\p -> f64.sum (map (\q -> k[a, b, p, q] * at i b (y + p - m) (z + q - m))
                                                          (iota r))) (iota r))) (iota c))
  let row i a y = f64.sum (map (\z -> let v = f64.max 0 (pixel i a y z) in v * v) (iota w))
  in f64.sum (map (\i -> f64.sum (map (\a -> f64.sum (map (row i a) (iota h))) (iota o))) (iota n))

def strided [n][o][c][h][w] (k: [o][c][3][3]f64) (x: [n][c][h][w]f64) : f64 =
  let layer i a =
    tabulate_2d ((h - 3) / 2 + 1) ((w - 3) / 2 + 1) (\y z ->
      f64.sum (tabulate c (\b -> f64.sum (flatten (tabulate_2d 3 3 (\p q ->
        k[a, b, p, q] * x[i, b, 2 * y + p, 2 * z + q]))))))
  in f64.sum (map (\v -> v * v) (flatten (flatten (flatten (tabulate_2d n o layer)))))

def channels_last [n][o][c][h][w] (k: [3][3][c][o]f64) (x: [n][h][w][c]f64) : f64 =
  let layer = tabulate_3d n (h - 2) (w - 2) (\i y z -> tabulate o (\a ->
    f64.sum (flatten_3d (tabulate_3d 3 3 c (\p q b -> k[p, q, b, a] * x[i, y + p, z + q, b])))))
  in f64.sum (map (\v -> v * v) (flatten (flatten (flatten layer))))

def dot [l] (a: [l]f64) (b: [l]f64) : f64 = f64.sum (map2 (*) a b)
def dot4 [a][b][c][d] (x: [a][b][c][d]f64) (y: [a][b][c][d]f64) : f64 =
  dot (flatten (flatten (flatten x))) (flatten (flatten (flatten y)))

def filter (a: i64) (b: i64) (p: i64) (q: i64) : f64 = f64.i64 ((a + 2 * b + 3 * p + 5 * q) % 7 - 3)
def image (i: i64) (b: i64) (y: i64) (z: i64) : f64 = f64.i64 ((3 * i + b + 2 * y + 5 * z) % 5 - 2)

-- The value, and each gradient with its argument: twice the value, which is a sum of squares.
-- ==
-- entry: batches
-- input { 2i64 1i64 2i64 7i64 }
-- output { 2589.0 5178.0 5178.0 }
-- input { 2i64 3i64 0i64 5i64 }
-- output { 0.0 0.0 0.0 }
entry batches (n: i64) (o: i64) (c: i64) (h: i64) : (f64, f64, f64) =
  let k = tabulate o (\a -> tabulate_3d c 3 3 (filter a))
  let x = tabulate n (\i -> tabulate_3d c h (h + 1) (image i))
  let (dk, dx) = vjp (\(k, x) -> batch k x) (k, x) 1
  in (batch k x, dot4 dk k, dot4 dx x)

-- ==
-- entry: strides
-- input { 2i64 1i64 2i64 7i64 }
-- output { 585.0 1170.0 1170.0 }
-- input { 0i64 3i64 2i64 5i64 }
-- output { 0.0 0.0 0.0 }
entry strides (n: i64) (o: i64) (c: i64) (h: i64) : (f64, f64, f64) =
  let k = tabulate o (\a -> tabulate_3d c 3 3 (filter a))
  let x = tabulate n (\i -> tabulate_3d c h (h + 1) (image i))
  let (dk, dx) = vjp (\(k, x) -> strided k x) (k, x) 1
  in (strided k x, dot4 dk k, dot4 dx x)

-- ==
-- entry: lasts
-- input { 2i64 1i64 2i64 7i64 }
-- output { 2040.0 4080.0 4080.0 }
-- input { 2i64 0i64 2i64 5i64 }
-- output { 0.0 0.0 0.0 }
entry lasts (n: i64) (o: i64) (c: i64) (h: i64) : (f64, f64, f64) =
  let k = tabulate_3d 3 3 c (\p q b -> tabulate o (\a -> filter a b p q))
  let x = tabulate_3d n h (h + 1) (\i y z -> tabulate c (\b -> image i b y z))
  let (dk, dx) = vjp (\(k, x) -> channels_last k x) (k, x) 1
  in (channels_last k x, dot4 dk k, dot4 dx x)

entry strided_gradient [n][o][c][h][w] (k: [o][c][3][3]f64) (x: [n][c][h][w]f64) : ([o][c][3][3]f64, [n][c][h][w]f64) =
  vjp (\(k, x) -> strided k x) (k, x) 1
