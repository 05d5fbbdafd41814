-- Two layers of a graph convolution (Kipf and Welling, 2017).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def affine [n][m][k] (x: [n][m]f32) (w: [m][k]f32): [n][k]f32 =
  map (\row -> map (\col -> f32.sum (map2 (*) row col)) (transpose w)) x

def received [n][k][e] (x: [n][k]f32) (from: [e]i64) (to: [e]i64): [n][k]f32 =
  reduce_by_index (replicate n (replicate k 0)) (map2 (+)) (replicate k 0) to (map (\i -> x[i]) from)

entry value [n][d][h][c][e] (w1: [d][h]f32) (w2: [h][c]f32) (x: [n][d]f32) (from: [e]i64) (to: [e]i64)
    (y: [n]i64): f32 =
  let hidden = map (map (f32.max 0)) (received (affine x w1) from to)
  let scores = received (affine hidden w2) from to
  let loss row label =
    let top = f32.maximum row
    in top + f32.log (f32.sum (map (\s -> f32.exp (s - top)) row)) - row[label]
  in f32.sum (map2 loss scores y) / f32.i64 n
