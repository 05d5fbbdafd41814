-- k-means clustering by Newton's method (Bottou and Bengio 1994): the cost of k centroids is the sum over n points of
-- the squared distance to the nearest one.  Its Hessian is diagonal, so one jvp of the gradient along ones yields it.

def sqdist [d] (p: [d]f64) (c: [d]f64): f64 =
  f64.sum (map2 (\a b -> (a - b) * (a - b)) p c)

def cost [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): f64 =
  f64.sum (map (\p -> f64.minimum (map (sqdist p) centroids)) points)

def cost_gradient [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): [k][d]f64 =
  vjp (cost points) centroids 1

-- The gradient and the diagonal of the Hessian.
def derivatives [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): ([k][d]f64, [k][d]f64) =
  jvp2 (cost_gradient points) centroids (replicate k (replicate d 1))

-- ==
-- entry: objective
-- input {
--   [[-1.03f64, -0.08f64], [0.04f64, -1.05f64], [0.26f64, -0.86f64], [0.97f64, 0.19f64], [0.09f64, -0.59f64],
--   [-0.12f64, -2.0f64]] [[-1.0f64, 0.5f64], [0.5f64, -1.0f64], [9.0f64, 9.0f64]]
-- }
-- output { 3.9862f64 }
entry objective [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): f64 =
  cost points centroids

-- ==
-- entry: gradient
-- input {
--   [[-1.03f64, -0.08f64], [0.04f64, -1.05f64], [0.26f64, -0.86f64], [0.97f64, 0.19f64], [0.09f64, -0.59f64],
--   [-0.12f64, -2.0f64]] [[-1.0f64, 0.5f64], [0.5f64, -1.0f64], [9.0f64, 9.0f64]]
-- }
-- output {
--   [[0.06000000000000005f64, 1.16f64], [2.5199999999999996f64, -1.379999999999999f64], [0.0f64, 0.0f64]]
-- }
entry gradient [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): [k][d]f64 =
  cost_gradient points centroids

-- ==
-- entry: hessian_diagonal
-- input {
--   [[-1.03f64, -0.08f64], [0.04f64, -1.05f64], [0.26f64, -0.86f64], [0.97f64, 0.19f64], [0.09f64, -0.59f64],
--   [-0.12f64, -2.0f64]] [[-1.0f64, 0.5f64], [0.5f64, -1.0f64], [9.0f64, 9.0f64]]
-- }
-- output { [[2.0f64, 2.0f64], [10.0f64, 10.0f64], [0.0f64, 0.0f64]] }
entry hessian_diagonal [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): [k][d]f64 =
  (derivatives points centroids).1

-- One Newton step from the centroids; a centroid that is nearest to no point stays where it is.
-- ==
-- entry: newton_step
-- input {
--   [[-1.03f64, -0.08f64], [0.04f64, -1.05f64], [0.26f64, -0.86f64], [0.97f64, 0.19f64], [0.09f64, -0.59f64],
--   [-0.12f64, -2.0f64]] [[-1.0f64, 0.5f64], [0.5f64, -1.0f64], [9.0f64, 9.0f64]]
-- }
-- output {
--   [[-1.03f64, -0.07999999999999996f64], [0.24800000000000005f64, -0.8620000000000001f64], [9.0f64, 9.0f64]]
-- }
entry newton_step [n][k][d] (points: [n][d]f64) (centroids: [k][d]f64): [k][d]f64 =
  let (g, h) = derivatives points centroids
  in map3 (map3 (\c g h -> if h == 0 then c else c - g / h)) centroids g h
