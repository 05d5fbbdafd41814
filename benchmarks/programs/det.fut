-- The determinant by expansion by minors, every minor computed anew wherever it occurs (`det_by_minor` of the
-- benchmark suite cmpad): a source of n! products, not a way to compute determinants.
--
-- The language has no recursion.  The upper rows are expanded all at once: one term for every choice of different
-- columns, numbered by the digits of a factorial number system.  The lower `base` rows are expanded by functions that
-- call each other.  The columns that are left are the digits, to the base 16, of one number: 16 of them at most.

def base: i64 = 5

def det2 (m: i64 -> i64 -> f64) (i: i64) (a: i64, b: i64): f64 =
  m i a * m (i + 1) b - m i b * m (i + 1) a

def det3 m i (a, b, c): f64 =
  m i a * det2 m (i + 1) (b, c) - m i b * det2 m (i + 1) (a, c) + m i c * det2 m (i + 1) (a, b)

def det4 m i (a, b, c, d): f64 =
  m i a * det3 m (i + 1) (b, c, d) - m i b * det3 m (i + 1) (a, c, d)
  + m i c * det3 m (i + 1) (a, b, d) - m i d * det3 m (i + 1) (a, b, c)

def det5 m i (a, b, c, d, e): f64 =
  m i a * det4 m (i + 1) (b, c, d, e) - m i b * det4 m (i + 1) (a, c, d, e)
  + m i c * det4 m (i + 1) (a, b, d, e) - m i d * det4 m (i + 1) (a, b, c, e)
  + m i e * det4 m (i + 1) (a, b, c, d)

-- Term number t of the expansion: the product of one element of each upper row, with its sign, and the minor of the
-- columns they leave.
def term [n] (a: [n][n]f64) (t: i64): f64 =
  let m i j = a[i, j]
  let at k columns = (columns >> (4 * k)) & 15
  let (product, left, _) =
    loop (product, left, t) = (1, 0xfedcba9876543210, t) for i < n - base do
      let k = t % (n - i)
      let element = a[i, at k left]
      let element = if k & 1 == 0 then element else -element
      let before = (1 << (4 * k)) - 1
      in (product * element, (left & before) | ((left >> 4) & !before), t / (n - i))
  in product * det5 m (n - base) (at 0 left, at 1 left, at 2 left, at 3 left, at 4 left)

def determinant [n] (a: [n][n]f64): f64 =
  -- A small matrix is set into the corner of an identity matrix.
  let size = assert (n <= 16) (i64.max n base)
  let b = tabulate_2d size size (\i j -> if i < n && j < n then a[i, j] else f64.bool (i == j))
  let terms = loop count = 1 for i < size - base do count * (size - i)
  in f64.sum (tabulate terms (term b))

-- ==
-- entry: primal
-- input { 1i64 [4.0] } output { 4.0 }
-- input { 2i64 [1.0, 2.0, 3.0, 4.0] } output { -2.0 }
-- input { 3i64 [2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 4.0] } output { 18.0 }
entry primal (ell: i64) (a: [ell * ell]f64): f64 = determinant (unflatten a)

-- ==
-- entry: gradient
-- input { 1i64 [4.0] } output { [1.0] }
-- input { 2i64 [1.0, 2.0, 3.0, 4.0] } output { [4.0, -3.0, -2.0, 1.0] }
entry gradient (ell: i64) (a: [ell * ell]f64): [ell * ell]f64 =
  vjp (\a -> determinant (unflatten a)) a 1
