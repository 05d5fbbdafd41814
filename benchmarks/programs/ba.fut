-- Bundle adjustment (ADBench; Srajer, Kukelova and Fitzgibbon 2018): n cameras of 11 numbers (rotation 3, centre 3,
-- focal length, principal point 2, radial distortion 2) see m points in p observations, each of one point by one
-- camera with a weight.  There are 2 p errors of reprojection and p of weight; the Jacobian has 3 p rows and
-- 11 n + 3 m + p columns, but an observation's two rows only 15 entries each, which two seed vectors find.

def dot (a: [3]f64) (b: [3]f64): f64 = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

def cross (a: [3]f64) (b: [3]f64): [3]f64 =
  [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

-- x turned by |r| about the axis r (Rodrigues' formula; without rotation its limit).
def rotate (r: [3]f64) (x: [3]f64): [3]f64 =
  let square = dot r r
  in if square == 0 then map2 (+) x (cross r x)
     else let angle = f64.sqrt square
          let axis = map (/ angle) r
          let (c, s) = (f64.cos angle, f64.sin angle)
          let along = (1 - c) * dot axis x
          in map3 (\x y a -> c * x + s * y + along * a) x (cross axis x) axis

-- The error of one observation.
def reprojection (camera: [11]f64) (point: [3]f64) (weight: f64) (feature: [2]f64): [2]f64 =
  let seen = rotate (take 3 camera) (map2 (-) point camera[3:6])
  let (x, y) = (seen[0] / seen[2], seen[1] / seen[2])
  let square = x * x + y * y
  let scale = camera[6] * (1 + camera[9] * square + camera[10] * square * square)
  in [weight * (scale * x + camera[7] - feature[0]), weight * (scale * y + camera[8] - feature[1])]

def weight_error (w: f64): f64 = 1 - w * w

entry objective [n][m][p] (cameras: [n][11]f64) (points: [m][3]f64) (weights: [p]f64)
                          (observations: [p][2]i32) (features: [p][2]f64): ([p][2]f64, [p]f64) =
  (map3 (\o w f -> reprojection cameras[o[0]] points[o[1]] w f) observations weights features,
   map weight_error weights)

-- The Jacobian in compressed sparse rows: where each row starts, columns, values.
entry jacobian [n][m][p] (cameras: [n][11]f64) (points: [m][3]f64) (weights: [p]f64)
                         (observations: [p][2]i32) (features: [p][2]f64)
                         : ([3 * p + 1]i32, [31 * p]i32, [31 * p]f64) =
  let block (o: [2]i32) w f: [2][15]f64 =
    let rows = mjp (\(c, x, w) -> reprojection c x w f) (cameras[o[0]], points[o[1]], w) [[1, 0], [0, 1]]
    in map (\(c, x, w) -> sized 15 (c ++ x ++ [w])) rows
  let values = flatten (map3 block observations weights features) |> flatten
  let columns = map2 (\o i -> let row = tabulate 15 (\j ->
                                if j < 11 then 11 * o[0] + i32.i64 j
                                else if j < 14 then i32.i64 (11 * n + j - 11) + 3 * o[1]
                                else i32.i64 (11 * n + 3 * m + i))
                              in [row, row])
                     observations (iota p)
                |> flatten |> flatten
  let starts = tabulate (3 * p + 1) (\i -> i32.i64 (if i < 2 * p then 15 * i else 28 * p + i))
  in (starts,
      sized (31 * p) (columns ++ tabulate p (\i -> i32.i64 (11 * n + 3 * m + i))),
      sized (31 * p) (values ++ map (\w -> vjp weight_error w 1) weights))
