-- Gaussian elimination without pivoting, in Doolittle's order (Golub and Van Loan, "Matrix computations", section 3.2),
-- and the logarithm of a determinant, whose gradient is the transposed inverse.
def lu [n] (a: [n][n]f64): ([n][n]f64, [n][n]f64) =
  loop (l, u) = (replicate n (replicate n 0), replicate n (replicate n 0)) for i < n do
    let u = loop u for k < n - i do
              let j = i + k
              in u with [i, j] = a[i, j] - f64.sum (map2 (*) l[i, :i] u[:i, j])
    let l = l with [i, i] = 1
    let l = loop l for k < n - i - 1 do
              let j = i + 1 + k
              in l with [j, i] = (a[j, i] - f64.sum (map2 (*) l[j, :i] u[:i, i])) / u[i, i]
    in (l, u)

-- ==
-- entry: factors
-- input { [[2.0, 1.0], [4.0, 5.0]] } output { [[1.0, 0.0], [2.0, 1.0]] [[2.0, 1.0], [0.0, 3.0]] }
-- input { [[3.0]] } output { [[1.0]] [[3.0]] }
-- input { empty([0][0]f64) } output { empty([0][0]f64) empty([0][0]f64) }
entry factors [n] (a: [n][n]f64) = lu a

def logdet [n] (a: [n][n]f64): f64 =
  let (_, u) = lu a in f64.sum (map (\i -> f64.log (f64.abs u[i, i])) (iota n))

-- ==
-- entry: inverse_transposed
-- input { [[2.0, 1.0], [4.0, 5.0]] }
-- output { [[0.8333333333333334, -0.6666666666666666], [-0.16666666666666666, 0.3333333333333333]] }
-- input { empty([0][0]f64) } output { empty([0][0]f64) }
entry inverse_transposed [n] (a: [n][n]f64): [n][n]f64 = vjp logdet a 1
