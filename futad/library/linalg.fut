-- Dense linear algebra: products, triangular systems, Cholesky, LU, QR, symmetric eigenvalues, singular values.  See
-- docs/library.md.
--
-- Sources.  Golub and Van Loan, "Matrix Computations", 4th edition, 2013: algorithms 3.1.1 to 3.1.4 (triangular
-- systems), 3.4.1 (LU), 4.2.10 (Cholesky), 5.2.1 (QR), sections 8.5 (Jacobi), 8.6.3 (Hestenes).  Giles, "An extended
-- collection of matrix derivative results", 2008: solves, eigenvalues.  Murray, "Differentiation of the Cholesky
-- decomposition", 2016: by blocks, and the symbolic form that its derivative is taken of.  Seeger et al.,
-- "Auto-differentiating linear algebra", 2017: QR.  Townsend, "Differentiating the singular value decomposition", 2016.

-- All of it, for floats of one type: `module linalg32 = mk_linalg f32`.
module mk_linalg (R: float) = {
  type t = R.t

  -- Products and norms ------------------------------------------------------------------------------------------------

  def dot [n] (x: [n]t) (y: [n]t): t = R.sum (map2 (*) x y)

  def outer [n][m] (x: [n]t) (y: [m]t): *[n][m]t = map (\a -> map (a *) y) x

  def matvec [n][m] (a: [n][m]t) (x: [m]t): *[n]t = map (\row -> R.sum (map2 (*) row x)) a

  def vecmat [n][m] (x: [n]t) (a: [n][m]t): *[m]t = map (\col -> R.sum (map2 (*) x col)) (transpose a)

  def matmul [n][m][k] (a: [n][m]t) (b: [m][k]t): *[n][k]t =
    map (\row -> map (\col -> R.sum (map2 (*) row col)) (transpose b)) a

  def matadd [n][m] (a: [n][m]t) (b: [n][m]t): *[n][m]t = map2 (map2 (+)) a b

  def matsub [n][m] (a: [n][m]t) (b: [n][m]t): *[n][m]t = map2 (map2 (-)) a b

  def eye (n: i64): *[n][n]t = tabulate_2d n n (\i j -> if i == j then 1 else 0)

  def diagonal [n] (a: [n][n]t): *[n]t = map (\i -> a[i, i]) (iota n)

  def from_diagonal [n] (d: [n]t): *[n][n]t = tabulate_2d n n (\i j -> if i == j then d[i] else 0)

  def trace_of [n] (a: [n][n]t): t = R.sum (diagonal a)

  def norm [n] (x: [n]t): t = R.sqrt (dot x x)

  def frobenius [n][m] (a: [n][m]t): t = R.sqrt (R.sum (map (\row -> dot row row) a))

  -- The entries on and below the diagonal, on and above it; the others are 0.
  def lower [n] (a: [n][n]t): *[n][n]t = tabulate_2d n n (\i j -> if i >= j then a[i, j] else 0)
  def upper [n] (a: [n][n]t): *[n][n]t = tabulate_2d n n (\i j -> if i <= j then a[i, j] else 0)

  local def below [n] (a: [n][n]t): *[n][n]t = tabulate_2d n n (\i j -> if i > j then a[i, j] else 0)

  -- The adjoint of the lower triangle of a symmetric matrix, of which only that is read, from that of all entries.
  local def folded [n] (s: [n][n]t): *[n][n]t =
    tabulate_2d n n (\i j -> if i > j then s[i, j] + s[j, i] else if i == j then s[i, i] else 0)

  -- Triangular systems ------------------------------------------------------------------------------------------------

  -- Rows of products are taken together; the rows inside a block come one after the other.
  local def block: i64 = 32
  local def blocks (n: i64): i64 = (n + block - 1) / block

  local def down_many [n][m] (unit: bool) (l: [n][n]t) (b: [n][m]t): *[n][m]t =
    loop x = replicate n (replicate m 0) for k < blocks n do
      let s = k * block
      let e = i64.min n (s + block)
      let x = x with [s:e] = matsub b[s:e] (matmul l[s:e, :s] x[:s])
      in loop x for i in s..<e do
        let row = map2 (-) x[i] (vecmat l[i, s:i] x[s:i])
        in x with [i] = if unit then row else map (/ l[i, i]) row

  local def up_many [n][m] (unit: bool) (u: [n][n]t) (b: [n][m]t): *[n][m]t =
    loop x = replicate n (replicate m 0) for k < blocks n do
      let e = n - k * block
      let s = i64.max 0 (e - block)
      let x = x with [s:e] = matsub b[s:e] (matmul u[s:e, e:] x[e:])
      in loop x for q < e - s do
        let i = e - 1 - q
        let row = map2 (-) x[i] (vecmat u[i, i + 1:e] x[i + 1:e])
        in x with [i] = if unit then row else map (/ u[i, i]) row

  local def down [n] (unit: bool) (l: [n][n]t) (b: [n]t): *[n]t =
    loop x = replicate n 0 for i < n do
      let y = b[i] - dot l[i, :i] x[:i]
      in x with [i] = if unit then y else y / l[i, i]

  local def up [n] (unit: bool) (u: [n][n]t) (b: [n]t): *[n]t =
    loop x = replicate n 0 for k < n do
      let i = n - 1 - k
      let y = b[i] - dot u[i, i + 1:] x[i + 1:]
      in x with [i] = if unit then y else y / u[i, i]

  -- The same of the transposed matrix, whose columns are read as rows.
  local def down_t [n] (unit: bool) (u: [n][n]t) (b: [n]t): *[n]t =
    loop x = copy b for i < n do
      let y = if unit then x[i] else x[i] / u[i, i]
      let x = x with [i + 1:] = map2 (\v w -> v - y * w) x[i + 1:] u[i, i + 1:]
      in x with [i] = y

  local def up_t [n] (unit: bool) (l: [n][n]t) (b: [n]t): *[n]t =
    loop x = copy b for k < n do
      let i = n - 1 - k
      let y = if unit then x[i] else x[i] / l[i, i]
      let x = x with [:i] = map2 (\v w -> v - y * w) x[:i] l[i, :i]
      in x with [i] = y

  -- Solutions with derivatives: of x = f l b, where g solves the transposed system, the adjoint of b is w = g l of x's,
  -- and that of l's triangle, the entries that `is` tells, - w x'.  g has a derivative of its own, so that second
  -- derivatives are solutions, too.
  local type^ vector_solver [n] = [n][n]t -> [n]t -> [n]t
  local def solving [n] (is: i64 -> i64 -> bool) (flip: bool) (f: vector_solver [n]) (g: vector_solver [n])
                        (l: [n][n]t) (b: [n]t): [n]t =
    with_vjp (\(l, b) -> f l b)
             (\x xb -> let w = g l xb
                       let (p, q) = if flip then (x, w) else (w, x)
                       in (tabulate_2d n n (\i j -> if is i j then -p[i] * q[j] else 0), w))
             (l, b)

  local type^ matrix_solver [n][m] = [n][n]t -> [n][m]t -> [n][m]t
  local def solving_many [n][m] (is: i64 -> i64 -> bool) (flip: bool) (f: matrix_solver [n][m])
                                (g: matrix_solver [n][m]) (l: [n][n]t) (b: [n][m]t): [n][m]t =
    with_vjp (\(l, b) -> f l b)
             (\x xb -> let w = g l xb
                       let p = if flip then matmul x (transpose w) else matmul w (transpose x)
                       in (tabulate_2d n n (\i j -> if is i j then -p[i, j] else 0), w))
             (l, b)

  local def lower_is (unit: bool) (i: i64) (j: i64): bool = if unit then i > j else i >= j
  local def upper_is (i: i64) (j: i64): bool = i <= j

  local def lower_with [n] (unit: bool) (l: [n][n]t) (b: [n]t): [n]t =
    solving (lower_is unit) false (down unit) (solving (lower_is unit) true (up_t unit) (down unit)) l b
  local def lower_t_with [n] (unit: bool) (l: [n][n]t) (b: [n]t): [n]t =
    solving (lower_is unit) true (up_t unit) (solving (lower_is unit) false (down unit) (up_t unit)) l b
  local def lower_many_with [n][m] (unit: bool) (l: [n][n]t) (b: [n][m]t): [n][m]t =
    let f = down_many unit
    let g l = up_many unit (transpose l)
    in solving_many (lower_is unit) false f (solving_many (lower_is unit) true g f) l b
  local def lower_t_many_with [n][m] (unit: bool) (l: [n][n]t) (b: [n][m]t): [n][m]t =
    let f l = up_many unit (transpose l)
    let g = down_many unit
    in solving_many (lower_is unit) true f (solving_many (lower_is unit) false g f) l b

  -- l x = b, and l' x = b, of a lower triangular matrix; entries above its diagonal are not read.
  def solve_lower [n] (l: [n][n]t) (b: [n]t): [n]t = lower_with false l b
  def solve_lower_t [n] (l: [n][n]t) (b: [n]t): [n]t = lower_t_with false l b
  def solve_lower_many [n][m] (l: [n][n]t) (b: [n][m]t): [n][m]t = lower_many_with false l b
  def solve_lower_t_many [n][m] (l: [n][n]t) (b: [n][m]t): [n][m]t = lower_t_many_with false l b

  -- u x = b, and u' x = b, of an upper triangular matrix; entries below its diagonal are not read.
  def solve_upper [n] (u: [n][n]t) (b: [n]t): [n]t =
    solving upper_is false (up false) (solving upper_is true (down_t false) (up false)) u b
  def solve_upper_t [n] (u: [n][n]t) (b: [n]t): [n]t =
    solving upper_is true (down_t false) (solving upper_is false (up false) (down_t false)) u b
  def solve_upper_many [n][m] (u: [n][n]t) (b: [n][m]t): [n][m]t =
    let g u = down_many false (transpose u)
    in solving_many upper_is false (up_many false) (solving_many upper_is true g (up_many false)) u b
  def solve_upper_t_many [n][m] (u: [n][n]t) (b: [n][m]t): [n][m]t =
    let f u = down_many false (transpose u)
    in solving_many upper_is true f (solving_many upper_is false (up_many false) f) u b

  -- Cholesky ----------------------------------------------------------------------------------------------------------

  -- By rows of the transposed factor, a block of rows at a time.
  local def factor [n] (a: [n][n]t): *[n][n]t =
    let a = transpose a
    let u = loop u = replicate n (replicate n 0) for k < blocks n do
      let s = k * block
      let e = i64.min n (s + block)
      let u = u with [s:e, s:] = matsub a[s:e, s:] (matmul (transpose u[:s, s:e]) u[:s, s:])
      let u = loop u for j in s..<e do
        let row = map2 (-) u[j, j:] (vecmat u[s:j, j] u[s:j, j:])
        let d = if row[0] > 0 then R.sqrt row[0] else R.nan
        in u with [j, j:] = map (/ d) row
      in u with [s:e, s:e] = upper (u[s:e, s:e] :> [e - s][e - s]t)
    in copy (transpose u)

  local def halved [n] (p: [n][n]t): *[n][n]t =
    tabulate_2d n n (\i j -> if i > j then p[i, j] else if i == j then p[i, i] / 2 else 0)

  -- The adjoint of a's lower triangle.  With p = halved (l' lb) it is that of the symmetric matrix l'^-1 p l^-1.
  local def unfactor_symbolic [n] (l: [n][n]t) (lb: [n][n]t): *[n][n]t =
    let p = halved (matmul (transpose l) (lower lb))
    let x = solve_lower_t_many l p
    in folded (solve_lower_t_many l (transpose x))

  -- The same by blocks, last one first.
  local def unfactor_blocks [n] (l: [n][n]t) (lb: [n][n]t): *[n][n]t =
    loop g = lower lb for q < blocks n do
      let s = (blocks n - 1 - q) * block
      let e = i64.min n (s + block)
      let (r, d) = (l[s:e, :s], l[s:e, s:e] :> [e - s][e - s]t)
      let inv = down_many false d (eye (e - s))
      let c = matmul g[e:, s:e] (inv :> [e - s][e - s]t)
      let db = matsub g[s:e, s:e] (matmul (transpose c) l[e:, s:e]) :> [e - s][e - s]t
      let p = halved (matmul (transpose d) (lower db))
      let y = matmul (transpose inv) (matmul p inv)
      let db = matadd y (transpose y)
      let g = g with [e:, :s] = matsub g[e:, :s] (matmul c r)
      let g = g with [s:e, :s] = matsub g[s:e, :s] (matadd (matmul (transpose c) l[e:, :s]) (matmul db r))
      let g = g with [e:, s:e] = c
      in g with [s:e, s:e] = folded y

  local def unfactor [n] (l: [n][n]t) (lb: [n][n]t): [n][n]t =
    with_vjp (\(l, lb) -> unfactor_blocks l lb)
             (\_ g -> vjp (\(l, lb) -> unfactor_symbolic l lb) (l, lb) g)
             (l, lb)

  -- The lower triangular l with l l' = a, of a symmetric positive definite matrix, of which the lower triangle is read.
  -- Where a is not positive definite the result is NaN from that column on.
  def cholesky [n] (a: [n][n]t): [n][n]t = with_vjp factor unfactor a

  -- a x = b, and log (det a), by a's factor.
  def cholesky_solve [n] (l: [n][n]t) (b: [n]t): [n]t = solve_lower_t l (solve_lower l b)
  def cholesky_solve_many [n][m] (l: [n][n]t) (b: [n][m]t): [n][m]t = solve_lower_t_many l (solve_lower_many l b)
  def cholesky_logdet [n] (l: [n][n]t): t = 2 * R.sum (map (\i -> R.log l[i, i]) (iota n))

  -- LU ----------------------------------------------------------------------------------------------------------------

  local def place_of_largest [n] (x: [n]t): i64 =
    (reduce (\(a, i) (b, j) -> if b > a || (b == a && j < i) then (b, j) else (a, i)) (-1, n)
            (zip (map R.abs x) (iota n))).1

  local def eliminate [n] (a: [n][n]t): (*[n][n]t, *[n]i64, *[n]i64) =
    loop (a, rows, exchanged) = (copy a, iota n, iota n) for k < blocks n do
      let s = k * block
      let e = i64.min n (s + block)
      -- The columns of a block, all rows of which change places.
      let (a, rows, exchanged) = loop (a, rows, exchanged) for j in s..<e do
        let p = j + i64.min (n - 1 - j) (place_of_largest a[j:, j])
        let (upper, lower) = (copy a[j], copy a[p])
        let a = a with [p] = upper
        let a = a with [j] = lower
        let (i, k) = (rows[j], rows[p])
        let rows = rows with [p] = i
        let rows = rows with [j] = k
        let d = a[j, j]
        let f = map (\x -> if d == 0 then 0 else x / d) a[j + 1:, j]
        let a = a with [j + 1:, j] = f
        let rest = map2 (\c row -> map2 (\x y -> x - c * y) row a[j, j + 1:e]) f a[j + 1:, j + 1:e]
        let a = a with [j + 1:, j + 1:e] = rest
        in (a, rows, exchanged with [j] = p)
      -- Right of it the rows of u, then what remains.
      let a = loop a for i in s..<e do
        a with [i, e:] = map2 (-) a[i, e:] (vecmat a[i, s:i] a[s:i, e:])
      in (a with [e:, e:] = matsub a[e:, e:] (matmul a[e:, s:e] a[s:e, e:]), rows, exchanged)

  -- As `lu`; and which row the k-th one has changed places with, one after the other.
  def lu_exchanges [n] (a: [n][n]t): ([n][n]t, [n]i64, [n]i64) =
    with_vjp eliminate
             (\(f, rows, _) (fb, _, _) ->
                let l = tabulate_2d n n (\i j -> if i > j then f[i, j] else if i == j then 1 else 0)
                let lower = matmul (transpose l) (below fb)
                let upper = matmul (upper fb) (transpose (upper f))
                let m = tabulate_2d n n (\i j -> if i > j then lower[i, j] else upper[i, j])
                let x = lower_t_many_with true f m
                let y = solve_upper_many f (transpose x)
                in scatter (replicate n (replicate n 0)) rows (transpose y))
             a

  -- Rows `rows` of a are l u: l below the diagonal of the first result, with ones on its own, u on and above it.  The
  -- largest entry of a column is its pivot; where that is 0, a is singular, and 0 stays there.
  def lu [n] (a: [n][n]t): ([n][n]t, [n]i64) =
    let (f, rows, _) = lu_exchanges a
    in (f, rows)

  local def lu_solve_t [n] (f: [n][n]t) (rows: [n]i64) (b: [n]t): [n]t =
    scatter (replicate n 0) rows (lower_t_with true f (solve_upper_t f b))

  local def lu_solve_t_many [n][m] (f: [n][n]t) (rows: [n]i64) (b: [n][m]t): [n][m]t =
    scatter (replicate n (replicate m 0)) rows (lower_t_many_with true f (solve_upper_t_many f b))

  -- a x = b.  Of a singular matrix the result has infinities or NaN.
  def solve [n] (a: [n][n]t) (b: [n]t): [n]t =
    with_vjp_tape (\(a, b) -> let (f, rows) = lu a
                              let x = solve_upper f (lower_with true f (map (\i -> b[i]) rows))
                              in ((f, rows, x), x))
                  (\((f, rows, x), xb) -> let w = lu_solve_t f rows xb in (outer (map R.neg w) x, w))
                  (a, b)

  -- The same for each column of b.
  def solve_many [n][m] (a: [n][n]t) (b: [n][m]t): [n][m]t =
    with_vjp_tape (\(a, b) -> let (f, rows) = lu a
                              let x = solve_upper_many f (lower_many_with true f (map (\i -> b[i]) rows))
                              in ((f, rows, x), x))
                  (\((f, rows, x), xb) -> let w = lu_solve_t_many f rows xb
                                         in (map (map R.neg) (matmul w (transpose x)), w))
                  (a, b)

  def inv [n] (a: [n][n]t): [n][n]t = solve_many a (eye n)

  -- 1 or -1: whether rows have changed places an even number of times.
  local def parity [n] (rows: [n]i64): t =
    let (_, odd) = loop (rows, odd) = (copy rows, false) for i < n do
      let (rows, odd) = loop (rows, odd) while rows[i] != i do
        let j = rows[i]
        let k = rows[j]
        let rows = rows with [j] = j
        let rows = rows with [i] = k
        in (rows, !odd)
      in (rows, odd)
    in if odd then -1 else 1

  -- The sign of the determinant, and the logarithm of its absolute value: 0 and -inf of a singular matrix.
  def slogdet [n] (a: [n][n]t): (t, t) =
    let (f, rows) = lu a
    let d = diagonal f
    in (parity rows * R.product (map R.sgn d), R.sum (map (\x -> R.log (R.abs x)) d))

  def logdet [n] (a: [n][n]t): t = (slogdet a).1

  -- The derivative is that of a regular matrix.
  def det [n] (a: [n][n]t): t =
    let (f, rows) = lu a
    in parity rows * R.product (diagonal f)

  -- QR and least squares ----------------------------------------------------------------------------------------------

  -- Rows k of the first result are the vectors v of reflections 1 - c v v', with the c; then what is left of a.
  local def reflect [m][n] (a: [m][n]t): (*[n][m]t, *[n]t, *[m][n]t) =
    loop (vs, cs, a) = (replicate n (replicate m 0), replicate n 0, copy a) for k < n do
      let x = copy a[k:, k]
      let s = norm x
      let v0 = if x[0] >= 0 then x[0] + s else x[0] - s
      let v = map2 (\i x -> if i == 0 then v0 else x) (iota (m - k)) x
      let vv = dot v v
      let c = if vv == 0 then 0 else 2 / vv
      let w = vecmat v a[k:, k:]
      let a = a with [k:, k:] = map2 (\y row -> map2 (\x z -> x - c * y * z) row w) v a[k:, k:]
      let vs = vs with [k, k:] = v
      in (vs, cs with [k] = c, a)

  local def householder [m][n] (a: [m][n]t): (*[m][n]t, *[n][n]t) =
    let (vs, cs, r) = reflect a
    let q = loop q = tabulate_2d m n (\i j -> if i == j then 1 else 0) for p < n do
      let k = n - 1 - p
      let v = copy vs[k, k:]
      let w = vecmat v q[k:, k:]
      in q with [k:, k:] = map2 (\y row -> map2 (\x z -> x - cs[k] * y * z) row w) v q[k:, k:]
    -- Signs are LAPACK's, which does not reflect where nothing is left below the diagonal.  Here that is a reflection,
    -- whose derivative is right, with the sign taken back.
    let signs = map2 (\k v -> if cs[k] != 0 && all (== 0) v[k + 1:] then -1 else 1) (iota n) vs
    in (map (map2 (*) signs) q, map2 (\s row -> map (s *) row) signs (upper r[:n]))

  -- q r = a, q with orthonormal columns, r upper triangular, of a matrix with at least as many rows as columns.
  -- Derivatives are those of a matrix of full rank.
  def qr [m][n] (a: [m][n]t): ([m][n]t, [n][n]t) =
    assert (m >= n)
    (with_vjp householder
              (\(q, r) (qb, rb) ->
                 let p = matsub (matmul r (transpose (upper rb))) (matmul (transpose qb) q)
                 let s = tabulate_2d n n (\i j -> if i >= j then p[i, j] else p[j, i])
                 in transpose (solve_upper_many r (transpose (matadd qb (matmul q s)))))
              a)

  -- The x for which the sum of squares of a x - b is least; a has full rank, and at least as many rows as columns.
  def lstsq [m][n] (a: [m][n]t) (b: [m]t): [n]t =
    let (q, r) = qr a
    in solve_upper r (vecmat b q)

  -- Symmetric eigenvalues ---------------------------------------------------------------------------------------------

  -- In round r of a sweep the row that row i of n is turned with, i for none: all pairs in n - 1 + n % 2 rounds.
  local def partner (n: i64) (r: i64) (i: i64): i64 =
    let end = n + n % 2 - 1
    let j = if i == end then r else let j = (2 * r - i) % end in if j == i then end else j
    in if j < n then j else i

  -- Cosine, and tangent, of the rotation that makes the matrix [x y; y z] diagonal, d = z - x.
  local def rotation (d: t) (y: t): (t, t) =
    let b = 2 * y
    let h = R.hypot d b
    let t = if b == 0 && d == 0 then 0 else if d < 0 then b / (d - h) else b / (d + h)
    in (1 / R.sqrt (1 + t * t), t)

  -- Rows turned with their partners.
  local def turned [n][m] (ps: [n]i64) (cs: [n]t) (ss: [n]t) (a: [n][m]t): *[n][m]t =
    map4 (\p c s row -> map2 (\x y -> c * x + s * y) row a[p]) ps cs ss a

  -- Where numbers come to when they are sorted, the least first, equal ones in their order.
  local def ranks [n] (w: [n]t): *[n]i64 =
    let before i j = w[i] < w[j] || (!(w[j] < w[i]) && i < j)
    in map (\i -> i64.sum (map (\j -> i64.bool (before j i)) (iota n))) (iota n)

  -- Jacobi's method: in each round n/2 rotations of different pairs of rows and columns, all pairs in a sweep, until
  -- nothing is left beside the diagonal, and once more, so that tangents have arrived, too.  Of a diagonal matrix the
  -- k-th derivatives arrive by the k-th sweep.
  local def jacobi [n] (a: [n][n]t): (*[n]t, *[n][n]t) =
    let rotate_all r (a: [n][n]t) (v: [n][n]t): (*[n][n]t, *[n][n]t) =
      let ps = map (partner n r) (iota n)
      let (cs, ss) = unzip (map2 (\i p ->
        if i == p then (1, 0)
        else let (lo, hi) = (i64.min i p, i64.max i p)
             let (c, t) = rotation (a[hi, hi] - a[lo, lo]) a[lo, hi]
             in (c, if i == lo then -t * c else t * c)) (iota n) ps)
      let half = transpose (turned ps cs ss a)
      in (turned ps cs ss half, turned ps cs ss v)
    let sweep (a: [n][n]t) (v: [n][n]t): (*[n][n]t, *[n][n]t) =
      loop (a, v) = (copy a, copy v) for r < n - 1 + n % 2 do rotate_all r a v
    let beside a = R.sum (map2 (\i row -> R.sum (map2 (\j x -> if i == j then 0 else x * x) (iota n) row)) (iota n) a)
    let size = R.epsilon * R.epsilon * R.sum (map (\row -> dot row row) a)
    let (a, v, _) =
      loop (a, v, k) = (copy a, eye n, 0) while k < 2 || k < 40 && beside a > size do
        let (a, v) = sweep a v
        in (a, v, k + 1)
    let (a, v) = sweep a v
    let w = diagonal a
    let places = ranks w
    in (scatter (replicate n 0) places w, transpose (scatter (replicate n (replicate n 0)) places v))

  -- Eigenvalues w, smallest first, and eigenvectors, the columns of v, of a symmetric matrix, of which the lower
  -- triangle is read.  In derivatives the terms that divide by the difference of equal eigenvalues are left out.
  def eigh [n] (a: [n][n]t): ([n]t, [n][n]t) =
    with_vjp (\(a: [n][n]t) -> jacobi (tabulate_2d n n (\i j -> if i >= j then a[i, j] else a[j, i])))
             (\(w, v) (wb, vb) ->
                let p = matmul (transpose v) vb
                let f i j = if i == j then wb[i] else if w[i] == w[j] then 0 else p[i, j] / (w[j] - w[i])
                let s = matmul v (matmul (tabulate_2d n n f) (transpose v))
                in folded s)
             a

  -- Singular values ---------------------------------------------------------------------------------------------------

  -- Hestenes' method on a's columns, the rows of w: pairs of them are turned until all are orthogonal, and once more,
  -- so that tangents have arrived, too.  Rows of j are turned as they are.
  local def hestenes [m][n] (a: [m][n]t): (*[m][n]t, *[n]t, *[n][n]t) =
    let rotated r (w: [n][m]t) (j: [n][n]t): (*[n][m]t, *[n][n]t, t) =
      let ps = map (partner n r) (iota n)
      let squares = map (\x -> dot x x) w
      let products = map2 (\i p -> if p > i then dot w[i] w[p] else 0) (iota n) ps
      let (cs, ss, far) = unzip3 (map2 (\i p ->
        if i == p then (1, 0, 0)
        else let (lo, hi) = (i64.min i p, i64.max i p)
             let (c, t) = rotation (squares[hi] - squares[lo]) products[lo]
             let far = R.abs products[lo] / R.sqrt squares[lo] / R.sqrt squares[hi]
             in (c, if i == lo then -t * c else t * c, if products[lo] == 0 then 0 else far)) (iota n) ps)
      in (turned ps cs ss w, turned ps cs ss j, R.maximum far)
    let sweep (w: [n][m]t) (j: [n][n]t): (*[n][m]t, *[n][n]t, t) =
      loop (w, j, far) = (copy w, copy j, 0) for r < n - 1 + n % 2 do
        let (w, j, here) = rotated r w j
        in (w, j, R.max far here)
    let least = R.epsilon * R.sqrt (R.i64 m)
    let (w, j, _, _) =
      loop (w, j, far, k) = (copy (transpose a), eye n, R.inf, 0) while k < 40 && far > least do
        let (w, j, far) = sweep w j
        in (w, j, far, k + 1)
    let (w, j, _) = sweep w j
    let s = map norm w
    let places = ranks (map R.neg s)
    let u = map2 (\x row -> map (\y -> if x == 0 then 0 else y / x) row) s w
    let (s, vt) = (scatter (replicate n 0) places s, scatter (replicate n (replicate n 0)) places j)
    let u = transpose (scatter (replicate n (replicate m 0)) places u)
    -- Columns of no length are any that are orthogonal to the others.
    let u = if n > 0 && s[n - 1] == 0
            then let (q, r) = householder u
                 in map (\row -> map2 (\x i -> if r[i, i] < 0 then -x else x) row (iota n)) q
            else u
    in (u, s, vt)

  -- u s vt = a: u with orthonormal columns, s the singular values, largest first, the diagonal of a matrix, vt with
  -- orthonormal rows; of a matrix with at least as many rows as columns.  In derivatives the terms that divide by the
  -- difference of equal singular values, or by one that is 0, are left out.
  def svd [m][n] (a: [m][n]t): ([m][n]t, [n]t, [n][n]t) =
    with_vjp hestenes
             (\(u, s, vt) (ub, sb, vtb) ->
                let p = matmul (transpose u) ub
                let q = matmul vt (transpose vtb)
                let f i j = if i == j then sb[i]
                            else if s[i] == s[j] then 0
                            else ((p[i, j] - p[j, i]) * s[j] + s[i] * (q[i, j] - q[j, i]))
                                 / ((s[j] - s[i]) * (s[j] + s[i]))
                let outside = map (map2 (\x y -> if x == 0 then 0 else y / x) s) (matsub ub (matmul u p))
                in matmul (matadd (matmul u (tabulate_2d n n f)) outside) vt)
             (assert (m >= n) a)
}

open mk_linalg f64
