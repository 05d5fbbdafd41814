-- Log-likelihood of a Kalman filter for a point with constant velocity (Kalman, 1960).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def matmul [n][m][k] (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  map (\row -> map (\col -> f64.sum (map2 (*) row col)) (transpose b)) a
def matvec [n][m] (a: [n][m]f64) (x: [m]f64): [n]f64 = map (\row -> f64.sum (map2 (*) row x)) a
def plus [n][m] (a: [n][m]f64) (b: [n][m]f64): [n][m]f64 = map2 (map2 (+)) a b

entry value [t] (q: f64) (r: f64) (z: [t][2]f64): f64 =
  let dt = 0.1
  let f = [[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1]]
  let h = [[1, 0, 0, 0], [0, 1, 0, 0]]
  let noise = tabulate_2d 4 4 (\i j -> if i == j then q * q else 0)
  let (_, _, total) =
    loop (x, p, total) = (replicate 4 0, tabulate_2d 4 4 (\i j -> if i == j then 1 else 0), 0) for i < t do
      let x = matvec f x
      let p = plus (matmul f (matmul p (transpose f))) noise
      let s = plus (matmul h (matmul p (transpose h))) [[r * r, 0], [0, r * r]]
      let det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
      let inv = [[s[1, 1] / det, -s[0, 1] / det], [-s[1, 0] / det, s[0, 0] / det]]
      let y = map2 (-) z[i] (matvec h x)
      let gain = matmul (matmul p (transpose h)) inv
      let x = map2 (+) x (matvec gain y)
      let kh = matmul gain h
      let p = matmul (tabulate_2d 4 4 (\i j -> (if i == j then 1 else 0) - kh[i, j])) p
      in (x, p, total + 0.5 * (f64.log det + f64.sum (map2 (*) y (matvec inv y)) + 2 * f64.log (2 * f64.pi)))
  in total
