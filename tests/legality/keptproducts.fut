-- Matrix products that two loops compute, of matrices that the first saves.
def matmul [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\row -> map (\col -> f64.sum (map2 (*) row col)) (transpose b)) a

entry saved [n][m] (w: [m][m]f64) (x: [m][m]f64) (_: [n]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m (replicate m 0))) for t < n do
    let p = matmul x w
    let hs = hs with [t] = x
    in (map2 (map2 (\p x -> f64.tanh p + x)) p x, hs)
  let g = #[return_sweep(1)] loop g = copy x for j < n do
    let p = let t = last - j in matmul hs[t] w
    in map2 (map2 (\p g -> f64.cos p * g)) p g
  in (y, g)
-- The first row is overwritten once it is saved.
entry overwritten [n][m] (w: [m][m]f64) (x: [m][m]f64) (_: [n]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m (replicate m 0))) for t < n do
    let p = matmul x w
    let hs = hs with [t] = x
    let hs = hs with [0] = p
    in (map2 (map2 (\p x -> f64.tanh p + x)) p x, hs)
  let g = #[return_sweep(1)] loop g = copy x for j < n do
    let p = let t = last - j in matmul hs[t] w
    in map2 (map2 (\p g -> f64.cos p * g)) p g
  in (y, g)
-- The last row is not saved, but what it was.
entry last_row [n][m] (w: [m][m]f64) (x: [m][m]f64) (_: [n]f64) =
  let last = n - 1
  let (y, hs) = #[forward_sweep(1)] loop (x, hs) = (copy x, replicate n (replicate m (replicate m 0.5))) for t < n - 1 do
    let p = matmul x w
    let hs = hs with [t] = x
    in (map2 (map2 (\p x -> f64.tanh p + x)) p x, hs)
  let g = #[return_sweep(1)] loop g = copy x for j < n do
    let p = let t = last - j in matmul hs[t] w
    in map2 (map2 (\p g -> f64.cos p * g)) p g
  in (y, g)
