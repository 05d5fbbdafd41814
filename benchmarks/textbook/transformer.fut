-- A transformer block: attention of one head, layer norm, a network (Vaswani et al., 2017).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def matmul [n][m][k] (a: [n][m]f32) (b: [m][k]f32): [n][k]f32 =
  map (\row -> map (\col -> f32.sum (map2 (*) row col)) (transpose b)) a

def softmax [n] (v: [n]f32): [n]f32 =
  let top = f32.maximum v
  let e = map (\x -> f32.exp (x - top)) v
  let s = f32.sum e
  in map (/ s) e

def norm [n] (v: [n]f32): [n]f32 =
  let mean = f32.sum v / f32.i64 n
  let var = f32.sum (map (\x -> (x - mean) ** 2) v) / f32.i64 n
  in map (\x -> (x - mean) / f32.sqrt (var + 1e-5)) v

entry value [n][d][h] (wq: [d][d]f32) (wk: [d][d]f32) (wv: [d][d]f32) (w1: [d][h]f32) (w2: [h][d]f32)
    (x: [n][d]f32): f32 =
  let y = map norm x
  let (q, k, v) = (matmul y wq, matmul y wk, matmul y wv)
  let weights = map softmax (map (map (/ f32.sqrt (f32.i64 d))) (matmul q (transpose k)))
  let x = map2 (map2 (+)) x (matmul weights v)
  let hidden = map (map (f32.max 0)) (matmul (map norm x) w1)
  let x = map2 (map2 (+)) x (matmul hidden w2)
  in f32.sum (map (\r -> f32.sum (map (\v -> v * v) r)) x) / f32.i64 n
