-- A gated recurrent unit over a batch of sequences (Cho et al., 2014): squared error of the final state.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def sigmoid (x: f32): f32 = 1 / (1 + f32.exp (-x))
def matvec [m][n] (a: [m][n]f32) (x: [n]f32): [m]f32 = map (\row -> f32.sum (map2 (*) row x)) a

entry value [h][d][b][t] (wz: [h][d]f32) (wr: [h][d]f32) (wh: [h][d]f32) (uz: [h][h]f32) (ur: [h][h]f32)
    (uh: [h][h]f32) (x: [b][t][d]f32) (y: [b][h]f32): f32 =
  let step s v =
    let z = map2 (\p q -> sigmoid (p + q)) (matvec wz v) (matvec uz s)
    let r = map2 (\p q -> sigmoid (p + q)) (matvec wr v) (matvec ur s)
    let n = map2 (\p q -> f32.tanh (p + q)) (matvec wh v) (matvec uh (map2 (*) r s))
    in map3 (\z s n -> (1 - z) * s + z * n) z s n
  let final = map (\xs -> loop s = replicate h 0 for i < t do step s xs[i]) x
  in f32.sum (map2 (\s t -> f32.sum (map2 (\a b -> (a - b) ** 2) s t)) final y) / f32.i64 b
