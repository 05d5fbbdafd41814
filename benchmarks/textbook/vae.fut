-- The bound of a variational autoencoder (Kingma and Welling, 2014).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def affine [n][m][k] (x: [n][m]f32) (w: [m][k]f32) (b: [k]f32): [n][k]f32 =
  map (\row -> map2 (\col c -> f32.sum (map2 (*) row col) + c) (transpose w) b) x

entry value [n][d][h][z] (w1: [d][h]f32) (b1: [h]f32) (wm: [h][z]f32) (bm: [z]f32) (wv: [h][z]f32) (bv: [z]f32)
    (w2: [z][h]f32) (b2: [h]f32) (w3: [h][d]f32) (b3: [d]f32) (x: [n][d]f32) (noise: [n][z]f32): f32 =
  let hidden = map (map f32.tanh) (affine x w1 b1)
  let mean = affine hidden wm bm
  let logvar = affine hidden wv bv
  let code = map3 (map3 (\m v e -> m + f32.exp (0.5 * v) * e)) mean logvar noise
  let out = affine (map (map f32.tanh) (affine code w2 b2)) w3 b3
  let entropy l t = f32.log (1 + f32.exp l) - t * l
  let rebuilt = f32.sum (map2 (\o t -> f32.sum (map2 entropy o t)) out x)
  let kl = f32.sum (map2 (\m v -> f32.sum (map2 (\a s -> a * a + f32.exp s - s - 1) m v)) mean logvar)
  in (rebuilt + 0.5 * kl) / f32.i64 n
