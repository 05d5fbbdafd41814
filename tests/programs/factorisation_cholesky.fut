-- Generalised least squares: observations with a covariance matrix, which Cholesky's factorisation makes independent
-- (Golub and Van Loan, "Matrix computations", sections 4.2 and 3.1).
def cholesky [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    loop l for j < i + 1 do
      let s = a[i, j] - f64.sum (map2 (*) l[i, :j] l[j, :j])
      in l with [i, j] = if i == j then f64.sqrt s else s / l[j, j]

-- The x with l x = b, for each column of b.
def forward [n][k] (l: [n][n]f64) (b: [n][k]f64): [n][k]f64 =
  loop x = replicate n (replicate k 0) for i < n do
    loop x for c < k do
      x with [i, c] = (b[i, c] - f64.sum (map2 (*) l[i, :i] x[:i, c])) / l[i, i]

-- ==
-- entry: factor
-- input { [[4.0, 2.0], [2.0, 10.0]] } output { [[2.0, 0.0], [1.0, 3.0]] }
-- input { [[9.0]] } output { [[3.0]] }
-- input { empty([0][0]f64) } output { empty([0][0]f64) }
entry factor [n] (a: [n][n]f64) = cholesky a

-- ==
-- entry: whitened
-- input { [[4.0, 2.0], [2.0, 10.0]] [[2.0, 4.0, 0.0], [7.0, 2.0, 3.0]] }
-- output { [[1.0, 2.0, 0.0], [2.0, 0.0, 1.0]] }
-- input { empty([0][0]f64) empty([0][2]f64) } output { empty([0][2]f64) }
-- input { [[4.0]] empty([1][0]f64) } output { empty([1][0]f64) }
entry whitened [n][k] (covariance: [n][n]f64) (b: [n][k]f64) = forward (cholesky covariance) b

def misfit [n][k] (covariance: [n][n]f64) (b: [n][k]f64): f64 =
  f64.sum (map (f64.sum <-< map (** 2)) (forward (cholesky covariance) b)) / 2

-- ==
-- entry: gradient
-- input { [[4.0, 2.0], [2.0, 10.0]] [[2.0], [7.0]] } output { [[0.16666666666666666], [0.6666666666666666]] }
entry gradient [n][k] (covariance: [n][n]f64) (b: [n][k]f64): [n][k]f64 = vjp (misfit covariance) b 1
