-- The Gaussian mixture model of ADBench (Srajer, Kukelova and Fitzgibbon 2018): the log likelihood of n points in d
-- dimensions under k clusters, with a Wishart prior on the inverse covariances, and its gradient.
--
-- A cluster's inverse covariance is Q' Q with Q lower triangular; its l = d + d(d-1)/2 parameters are first the
-- logarithms of Q's diagonal, then its strictly lower triangle column by column.

def sqnorm [d] (x: [d]f64): f64 =
  f64.sum (map (\a -> a * a) x)

def dot [d] (x: [d]f64) (y: [d]f64): f64 =
  f64.sum (map2 (*) x y)

-- Terms below e^-650 = 5e-283 of the largest one count as nothing: they change no digit of the sum, but as weights
-- they would make denormal numbers of the adjoints, on which processors are a hundred times slower.
def logsumexp [k] (x: [k]f64): f64 =
  let top = f64.maximum x
  let weight t = f64.exp (if t - top < -650 then -f64.inf else t - top)
  in top + f64.log (f64.sum (map weight x))

-- The dense factor Q.
def unpack [l] (d: i64) (icf: [l]f64): [d][d]f64 =
  let lower i j = icf[d + j * (2 * d - j - 1) / 2 + i - j - 1]
  in tabulate_2d d d (\i j -> if i == j then f64.exp icf[i]
                              else if i > j then lower i j
                              else 0)

-- The logarithm of the multivariate gamma function.
def log_gamma_distrib (a: f64) (d: i64): f64 =
  0.25 * f64.i64 (d * (d - 1)) * f64.log f64.pi
  + f64.sum (tabulate d (\j -> f64.lgamma (a - 0.5 * f64.i64 j)))

def log_wishart_prior [k][d] (factors: [k][d][d]f64) (log_dets: [k]f64) (gamma: f64) (m: i64): f64 =
  let dof = d + m + 1
  let constant = f64.i64 (dof * d) * (f64.log gamma - 0.5 * f64.log 2)
                 - log_gamma_distrib (0.5 * f64.i64 dof) d
  let squares = f64.sum (map (\q -> f64.sum (map sqnorm q)) factors)
  in f64.i64 k * constant - 0.5 * gamma * gamma * squares + f64.i64 m * f64.sum log_dets

-- The points as each cluster sees them, Q (x - mu) = Q x - Q mu: a product of matrices for each cluster, in whose
-- derivative the points, which are constant, need no adjoint.  Centring points and means beforehand keeps the two
-- terms of the difference as small as the data's spread.  The result is a value of its own, because its derivative
-- needs it again: keeping it costs less than computing it twice.
def whiten [n][d][k] (factors: [k][d][d]f64) (means: [k][d]f64) (x: [n][d]f64): [k][n][d]f64 =
  let origin = map (\column -> f64.sum column / f64.i64 n) (transpose x)
  let centre (p: [d]f64): [d]f64 = map2 (-) p origin
  let xs = map centre x
  in map2 (\q mu -> let shift = map (dot mu) q
                    in map (\p -> map2 (\row s -> dot row p - s) q shift) xs)
          factors (map centre means)

def log_likelihood [n][d][k][l] (alphas: [k]f64) (means: [k][d]f64) (icf: [k][l]f64)
                                (x: [n][d]f64) (gamma: f64) (m: i64): f64 =
  let factors = map (unpack d) icf
  let log_dets = map (\f -> f64.sum (take d f)) icf
  let terms = map3 (\alpha log_det ys -> map (\y -> alpha + log_det - 0.5 * sqnorm y) ys)
                   alphas log_dets (whiten factors means x)
  in f64.sum (map logsumexp (transpose terms))
     - f64.i64 n * logsumexp alphas
     - 0.5 * f64.i64 (n * d) * f64.log (2 * f64.pi)
     + log_wishart_prior factors log_dets gamma m

-- ==
-- entry: objective
-- input {
--   [0.0f64, 0.3f64] [[-0.27f64, -0.89f64, -0.45f64], [-0.99f64, 0.06f64, 1.34f64]] [[-0.49f64, -0.62f64,
--   0.49f64, 0.36f64, 0.11f64, -0.93f64], [-0.03f64, 0.7f64, -1.34f64, -0.46f64, -1.9f64, -1.29f64]] [[-1.84f64,
--   -0.24f64, -1.27f64], [0.27f64, 0.16f64, -0.19f64], [-2.52f64, -0.54f64, -0.05f64], [0.11f64, -1.53f64,
--   -0.48f64]] 1.0f64 0i64
-- }
-- output { -38.51355198170191f64 }
entry objective [n][d][k][l] (alphas: [k]f64) (means: [k][d]f64) (icf: [k][l]f64)
                             (x: [n][d]f64) (gamma: f64) (m: i64): f64 =
  log_likelihood alphas means icf x gamma m

-- ==
-- entry: gradient
-- input {
--   [0.0f64, 0.3f64] [[-0.27f64, -0.89f64, -0.45f64], [-0.99f64, 0.06f64, 1.34f64]] [[-0.49f64, -0.62f64,
--   0.49f64, 0.36f64, 0.11f64, -0.93f64], [-0.03f64, 0.7f64, -1.34f64, -0.46f64, -1.9f64, -1.29f64]] [[-1.84f64,
--   -0.24f64, -1.27f64], [0.27f64, 0.16f64, -0.19f64], [-2.52f64, -0.54f64, -0.05f64], [0.11f64, -1.53f64,
--   -0.48f64]] 1.0f64 0i64
-- }
-- output {
--   [1.428870007705555f64, -1.4288700077055552f64] [[-0.639451510820014f64, 0.06723489859180813f64,
--   -0.22031357798211348f64], [-2.6767971851555585f64, -1.806238063420556f64, 0.28835810800632444f64]]
--   [[0.5647201697404739f64, 2.474535273665135f64, 0.22773963348587456f64, -2.1287436709527f64,
--   -0.38681878047873636f64, 1.994168272632931f64], [-0.6818701990264594f64, -3.3075747506941386f64,
--   1.5581953223989506f64, 0.31139916087776276f64, 2.9241337161551724f64, 1.6390934806119941f64]]
-- }
-- input {
--   [-0.98f64, -0.81f64, 1.06f64] [[-0.81f64], [-0.03f64], [0.88f64]] [[-0.58f64], [-0.11f64], [0.11f64]]
--   [[0.06f64], [-1.23f64]] 0.5f64 2i64
-- }
-- output {
--   [0.1914208456306058f64, 0.26234168950287784f64, -0.45376253513348375f64] [[-0.023946706197970756f64],
--   [-0.3316735353682303f64], [-1.6415889558330519f64]] [[2.281213954896814f64], [1.8900514895894132f64],
--   [0.3618131805811129f64]]
-- }
entry gradient [n][d][k][l] (alphas: [k]f64) (means: [k][d]f64) (icf: [k][l]f64)
                            (x: [n][d]f64) (gamma: f64) (m: i64): ([k]f64, [k][d]f64, [k][l]f64) =
  vjp (\(a, mu, f) -> log_likelihood a mu f x gamma m) (alphas, means, icf) 1
