-- Bundle adjustment (ADBench; Srajer, Kukelova and Fitzgibbon 2018): n cameras of 11 numbers (rotation 3, centre 3,
-- focal length, principal point 2, radial distortion 2) see m points in p observations, each of one point by one
-- camera with a weight.  There are 2 p errors of reprojection and p of weight; the Jacobian has 3 p rows and
-- 11 n + 3 m + p columns, but an observation's two rows only 15 entries each, which two seed vectors find.

type vector = {x: f64, y: f64, z: f64}

def vector (a: [3]f64): vector = {x = a[0], y = a[1], z = a[2]}

-- s a + b
def plus (s: f64) (a: vector) (b: vector): vector = {x = s * a.x + b.x, y = s * a.y + b.y, z = s * a.z + b.z}

def dot (a: vector) (b: vector): f64 = a.x * b.x + a.y * b.y + a.z * b.z

def cross (a: vector) (b: vector): vector =
  {x = a.y * b.z - a.z * b.y, y = a.z * b.x - a.x * b.z, z = a.x * b.y - a.y * b.x}

type camera = {rotation: vector, centre: vector, focal: f64, principal: (f64, f64), distortion: (f64, f64)}

def camera (c: [11]f64): camera =
  {rotation = vector (take 3 c), centre = vector c[3:6], focal = c[6], principal = (c[7], c[8]),
   distortion = (c[9], c[10])}

-- x turned by |r| about the axis r (Rodrigues' formula; without rotation its limit).  The branches choose between
-- numbers only, so that nothing costly is within them, where a derivative would compute it again.
def turned (r: vector) (x: vector): vector =
  let square = dot r r
  let still = square == 0
  let nonzero = if still then 1 else square
  let angle = f64.sqrt nonzero
  let (c, s) = (f64.cos angle, f64.sin angle)
  let (keep, across, along) = if still then (1, 1, 0) else (c, s / angle, (1 - c) / nonzero)
  in plus keep x (plus across (cross r x) (plus (along * dot r x) r {x = 0, y = 0, z = 0}))

-- The error of one observation.
def reprojection (feature: [2]f64) (camera: camera, point: vector, weight: f64): (f64, f64) =
  let seen = turned camera.rotation (plus (-1) camera.centre point)
  let (x, y) = (seen.x / seen.z, seen.y / seen.z)
  let square = x * x + y * y
  let scale = camera.focal * (1 + camera.distortion.0 * square + camera.distortion.1 * square * square)
  in (weight * (scale * x + camera.principal.0 - feature[0]), weight * (scale * y + camera.principal.1 - feature[1]))

def weight_error (w: f64): f64 = 1 - w * w

-- ==
-- entry: objective
-- input {
--   [[0.0, 0.0, 0.0, 0.03, -0.16, 0.11, 0.39, 0.28, -0.21, -0.38, -0.19], [0.01, -0.7, -0.07, -0.38, -0.22, -0.16,
--   -0.1, 0.12, 0.31, -0.04, 0.41]] [[-0.67, 0.35, 6.9]] [0.09, -0.74] [[0i32, 0i32], [1i32, 0i32]] [[-0.92,
--   -0.46], [0.22, -1.01]]
-- }
-- output {
--   [[0.10440399696910851, 0.025119945065363795], [-0.00986672404104236, -0.9645857972987825]] [0.9919, 0.4524]
-- }
entry objective [n][m][p] (cameras: [n][11]f64) (points: [m][3]f64) (weights: [p]f64)
                          (observations: [p][2]i32) (features: [p][2]f64): ([p][2]f64, [p]f64) =
  (map3 (\o w f -> let (x, y) = reprojection f (camera cameras[o[0]], vector points[o[1]], w) in [x, y])
        observations weights features,
   map weight_error weights)

-- The Jacobian in compressed sparse rows: where each row starts, columns, values.
-- ==
-- entry: jacobian
-- input {
--   [[0.0, 0.0, 0.0, 0.03, -0.16, 0.11, 0.39, 0.28, -0.21, -0.38, -0.19], [0.01, -0.7, -0.07, -0.38, -0.22, -0.16,
--   -0.1, 0.12, 0.31, -0.04, 0.41]] [[-0.67, 0.35, 6.9]] [0.09, -0.74] [[0i32, 0i32], [1i32, 0i32]] [[-0.92,
--   -0.46], [0.22, -1.01]]
-- }
-- output {
--   [0i32, 15i32, 30i32, 45i32, 60i32, 61i32, 62i32] [0i32, 1i32, 2i32, 3i32, 4i32, 5i32, 6i32, 7i32, 8i32, 9i32,
--   10i32, 22i32, 23i32, 24i32, 25i32, 0i32, 1i32, 2i32, 3i32, 4i32, 5i32, 6i32, 7i32, 8i32, 9i32, 10i32, 22i32,
--   23i32, 24i32, 25i32, 11i32, 12i32, 13i32, 14i32, 15i32, 16i32, 17i32, 18i32, 19i32, 20i32, 21i32, 22i32,
--   23i32, 24i32, 26i32, 11i32, 12i32, 13i32, 14i32, 15i32, 16i32, 17i32, 18i32, 19i32, 20i32, 21i32, 22i32,
--   23i32, 24i32, 26i32, 25i32, 26i32] [5.67598647055376e-05, 0.03495913509630204, -0.0026199450653637945,
--   -0.005094712945418478, -3.091637600053051e-05, -0.0005229059955865485, -0.00922052059202944, 0.09, 0.0,
--   -5.887284170916035e-05, -9.578436313915939e-07, 0.005094712945418478, 3.091637600053051e-05,
--   0.0005229059955865485, 1.1600444107678725, -0.03492258301536142, -5.67598647055376e-05, -0.003596003030891483,
--   -3.091637600053051e-05, -0.005114622398758874, 0.0003809743682130566, 0.006717807859907164, 0.0, 0.09,
--   4.289307038810253e-05, 6.978575028710184e-07, 3.091637600053051e-05, 0.005114622398758874,
--   -0.0003809743682130566, 0.2791105007262644, 0.014436069874508392, 0.3126404592939141, -0.02098048485980593,
--   -0.044236022210586666, -0.0007976674009591254, -0.0017526594932752706, 0.8386672404104236, -0.74, 0.0,
--   -0.05593711517972515, -0.04674308644443875, 0.044236022210586666, 0.0007976674009591254,
--   0.0017526594932752706, 0.01333341086627346, -0.11657353239869657, -0.03614182758956812, -0.04457921358736227,
--   0.005674525416759634, -0.01771831921935212, 0.0016636054285964585, -0.12214202701217526, 0.0, -0.74,
--   0.008146583417186532, 0.006807581185995878, -0.005674525416759634, 0.01771831921935212,
--   -0.0016636054285964585, 1.3034943206740304, -0.18, 1.48]
-- }
entry jacobian [n][m][p] (cameras: [n][11]f64) (points: [m][3]f64) (weights: [p]f64)
                         (observations: [p][2]i32) (features: [p][2]f64)
                         : ([3 * p + 1]i32, [31 * p]i32, [31 * p]f64) =
  let row ({rotation = r, centre = t, focal, principal = u, distortion = k}: camera, x: vector, w: f64) =
    [r.x, r.y, r.z, t.x, t.y, t.z, focal, u.0, u.1, k.0, k.1, x.x, x.y, x.z, w]
  let block (o: [2]i32) w f =
    let along seed = vjp (reprojection f) (camera cameras[o[0]], vector points[o[1]], w) seed
    in [row (along (1, 0)), row (along (0, 1))]
  let (first, other) = (i32.i64 (11 * n), i32.i64 (11 * n + 3 * m))
  let columns (o: [2]i32) i =
    let (c, x) = (11 * o[0], first + 3 * o[1])
    let row = [c, c + 1, c + 2, c + 3, c + 4, c + 5, c + 6, c + 7, c + 8, c + 9, c + 10, x, x + 1, x + 2,
               other + i32.i64 i]
    in [row, row]
  let starts = tabulate (3 * p + 1) (\i -> i32.i64 (if i < 2 * p then 15 * i else 28 * p + i))
  in (starts,
      sized (31 * p) (flatten (flatten (map2 columns observations (iota p))) ++ tabulate p (\i -> other + i32.i64 i)),
      sized (31 * p) (flatten (flatten (map3 block observations weights features))
                      ++ map (\w -> vjp weight_error w 1) weights))
