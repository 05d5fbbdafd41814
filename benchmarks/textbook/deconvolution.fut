-- Deconvolution of an image with total variation (Rudin, Osher, Fatemi, 1992), smoothed.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [h][w] (image: [h][w]f64) (blurred: [h][w]f64) (kernel: [3][3]f64): f64 =
  let clamp lo hi i = i64.max lo (i64.min hi i)
  let at i j = image[clamp 0 (h - 1) i, clamp 0 (w - 1) j]
  let blur i j =
    f64.sum (flatten (tabulate_2d 3 3 (\p q -> kernel[p, q] * at (i + p - 1) (j + q - 1))))
  let misfit = tabulate_2d h w (\i j -> (blur i j - blurred[i, j]) ** 2)
  let variation = tabulate_2d h w (\i j ->
    f64.sqrt ((at (i + 1) j - at i j) ** 2 + (at i (j + 1) - at i j) ** 2 + 1e-4))
  in 0.5 * f64.sum (flatten misfit) + 0.05 * f64.sum (flatten variation)
