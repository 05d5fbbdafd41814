-- Cross-entropy of a network with one hidden layer (Goodfellow, Bengio, Courville, 2016, 6.1).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def affine [n][m][k] (x: [n][m]f32) (w: [m][k]f32) (b: [k]f32): [n][k]f32 =
  map (\row -> map2 (\col c -> f32.sum (map2 (*) row col) + c) (transpose w) b) x

entry value [n][d][h][c] (w1: [d][h]f32) (b1: [h]f32) (w2: [h][c]f32) (b2: [c]f32) (x: [n][d]f32) (y: [n]i64): f32 =
  let hidden = map (map (f32.max 0)) (affine x w1 b1)
  let scores = affine hidden w2 b2
  let loss row label =
    let top = f32.maximum row
    in top + f32.log (f32.sum (map (\s -> f32.exp (s - top)) row)) - row[label]
  in f32.sum (map2 loss scores y) / f32.i64 n
