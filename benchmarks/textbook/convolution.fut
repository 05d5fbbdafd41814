-- A convolutional layer, 3 by 3, with ReLU (Goodfellow, Bengio, Courville, 2016, 9.1).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [o][c][h][w] (k: [o][c][3][3]f32) (bias: [o]f32) (x: [c][h][w]f32): f32 =
  let at a i j = if i < 0 || i >= h || j < 0 || j >= w then 0 else x[a, i, j]
  let pixel a i j =
    bias[a] + f32.sum (tabulate c (\b ->
      f32.sum (flatten (tabulate_2d 3 3 (\p q -> k[a, b, p, q] * at b (i + p - 1) (j + q - 1))))))
  let y = tabulate_3d o h w (\a i j -> f32.max 0 (pixel a i j))
  in f32.sum (map (\v -> v * v) (flatten_3d y)) / f32.i64 (h * w)
