-- k-means clustering of sparse points by Newton's method.  The points are the rows of a compressed sparse row matrix:
-- row i holds values[e] in columns[e], no column twice, for starts[i] <= e < starts[i+1]; the centroids are dense.
--
-- |p - c|^2 = |c|^2 + the sum over p's entries v of v (v - 2 c[column]), so that a point costs what it holds.

def sqnorm [d] (x: [d]f64): f64 =
  f64.sum (map (\a -> a * a) x)

def cost [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64) (centroids: [k][d]f64): f64 =
  let norms = map sqnorm centroids
  let sqdist (i: i64) (c: [d]f64) (norm: f64): f64 =
    loop s = norm for j < starts[i + 1] - starts[i] do
      let v = values[starts[i] + j]
      in s + v * (v - 2 * c[columns[starts[i] + j]])
  in f64.sum (tabulate (r - 1) (\i -> f64.minimum (map2 (sqdist i) centroids norms)))

def cost_gradient [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64)
                               (centroids: [k][d]f64): [k][d]f64 =
  vjp (cost values columns starts) centroids 1

-- The gradient and the diagonal of the Hessian, which has nothing else.
def derivatives [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64)
                             (centroids: [k][d]f64): ([k][d]f64, [k][d]f64) =
  jvp2 (cost_gradient values columns starts) centroids (replicate k (replicate d 1))

-- ==
-- entry: objective
-- input {
--   [-1.13f64, 0.36f64, -2.13f64, 0.85f64, -1.75f64, 0.76f64, -0.85f64] [0i64, 2i64, 1i64, 3i64, 0i64, 1i64,
--   2i64] [0i64, 2i64, 3i64, 3i64, 7i64] [[-1.0f64, 0.5f64, 0.0f64, 1.0f64], [0.5f64, -1.0f64, 0.25f64,
--   -0.5f64], [9.0f64, 9.0f64, 9.0f64, 9.0f64]]
-- }
-- output { 6.1735f64 }
entry objective [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64) (centroids: [k][d]f64): f64 =
  cost values columns starts centroids

-- ==
-- entry: gradient
-- input {
--   [-1.13f64, 0.36f64, -2.13f64, 0.85f64, -1.75f64, 0.76f64, -0.85f64] [0i64, 2i64, 1i64, 3i64, 0i64, 1i64,
--   2i64] [0i64, 2i64, 3i64, 3i64, 7i64] [[-1.0f64, 0.5f64, 0.0f64, 1.0f64], [0.5f64, -1.0f64, 0.25f64,
--   -0.5f64], [9.0f64, 9.0f64, 9.0f64, 9.0f64]]
-- }
-- output {
--   [[1.7599999999999998f64, 0.48f64, 0.98f64, 2.3f64], [2.0f64, 0.2599999999999998f64, 1.0f64, -2.0f64],
--   [0.0f64, 0.0f64, 0.0f64, 0.0f64]]
-- }
entry gradient [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64) (centroids: [k][d]f64): [k][d]f64 =
  cost_gradient values columns starts centroids

-- ==
-- entry: hessian_diagonal
-- input {
--   [-1.13f64, 0.36f64, -2.13f64, 0.85f64, -1.75f64, 0.76f64, -0.85f64] [0i64, 2i64, 1i64, 3i64, 0i64, 1i64,
--   2i64] [0i64, 2i64, 3i64, 3i64, 7i64] [[-1.0f64, 0.5f64, 0.0f64, 1.0f64], [0.5f64, -1.0f64, 0.25f64,
--   -0.5f64], [9.0f64, 9.0f64, 9.0f64, 9.0f64]]
-- }
-- output {
--   [[4.0f64, 4.0f64, 4.0f64, 4.0f64], [4.0f64, 4.0f64, 4.0f64, 4.0f64], [0.0f64, 0.0f64, 0.0f64, 0.0f64]]
-- }
entry hessian_diagonal [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64)
                                    (centroids: [k][d]f64): [k][d]f64 =
  (derivatives values columns starts centroids).1

-- One Newton step from the centroids; a centroid that is nearest to no point stays where it is.
-- ==
-- entry: newton_step
-- input {
--   [-1.13f64, 0.36f64, -2.13f64, 0.85f64, -1.75f64, 0.76f64, -0.85f64] [0i64, 2i64, 1i64, 3i64, 0i64, 1i64,
--   2i64] [0i64, 2i64, 3i64, 3i64, 7i64] [[-1.0f64, 0.5f64, 0.0f64, 1.0f64], [0.5f64, -1.0f64, 0.25f64,
--   -0.5f64], [9.0f64, 9.0f64, 9.0f64, 9.0f64]]
-- }
-- output {
--   [[-1.44f64, 0.38f64, -0.245f64, 0.42500000000000004f64], [0.0f64, -1.065f64, 0.0f64, 0.0f64], [9.0f64,
--   9.0f64, 9.0f64, 9.0f64]]
-- }
entry newton_step [e][r][k][d] (values: [e]f64) (columns: [e]i64) (starts: [r]i64)
                               (centroids: [k][d]f64): [k][d]f64 =
  let (g, h) = derivatives values columns starts centroids
  in map3 (map3 (\c g h -> if h == 0 then c else c - g / h)) centroids g h
