-- Reprojection errors of points seen by cameras (Hartley and Zisserman, 2004, 18.1).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [c][p][m] (cams: [c][6]f64) (points: [p][3]f64) (is: [m]i64) (js: [m]i64) (seen: [m][2]f64): f64 =
  let cross a b =
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
  let dot a b = f64.sum (map2 (*) a b)
  let turned (w: [3]f64) (x: [3]f64) =
    let angle = f64.sqrt (dot w w + 1e-12)
    let axis = map (/ angle) w
    let along = dot axis x * (1 - f64.cos angle)
    in map3 (\a b k -> a * f64.cos angle + b * f64.sin angle + k * along) x (cross axis x) axis
  let project cam x =
    let y = map2 (+) (turned cam[0:3] x) cam[3:6]
    in [y[0] / y[2], y[1] / y[2]]
  let loss i j s = f64.sum (map2 (\a b -> (a - b) ** 2) (project cams[i] points[j]) s)
  in f64.sum (map3 loss is js seen)
