-- Mean and variance of the values above a threshold that are kept.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (x: [n]f64) (scale: f64): f64 =
  let kept = filter (> 0) (map (\v -> scale * v - 0.1) x)
  let count = f64.i64 (length kept)
  let mean = f64.sum kept / count
  in mean + f64.sum (map (\v -> (v - mean) ** 2) kept) / count
