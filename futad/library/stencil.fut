-- Convolutions, correlations and stencils, in one and two dimensions, with borders.  See docs/library.md.

-- All of it, for floats of one type: `module stencil32 = mk_stencil f32`.
module mk_stencil (R: float) = {
  type t = R.t

  -- What is read beside an array a b c d: 0 0 | 0 0, a a | d d, b a | d c, c b | c b, c d | a b.
  type border = #zero | #clamp | #reflect | #mirror | #periodic

  -- The place of an array of n elements that is read at i, which need not be one.
  local def place (b: border) (n: i64) (i: i64): i64 =
    match b
    case #zero -> i
    case #clamp -> i64.max 0 (i64.min (n - 1) i)
    case #reflect -> let p = i % (2 * n) in i64.min p (2 * n - 1 - p)
    case #mirror -> if n == 1 then 0 else let p = i % (2 * n - 2) in i64.min p (2 * n - 2 - p)
    case #periodic -> i % n

  local def at [n] (b: border) (x: [n]t) (i: i64): t =
    match b
    case #zero -> if i >= 0 && i < n then x[i] else 0
    case _ -> x[place b n i]

  local def at_2d [n][m] (b: border) (x: [n][m]t) (i: i64) (j: i64): t =
    match b
    case #zero -> if i >= 0 && i < n && j >= 0 && j < m then x[i, j] else 0
    case _ -> x[place b n i, place b m j]

  -- Stencils: f is given a function that reads relative to each place.
  def stencil [n] 'a (b: border) (f: (i64 -> t) -> a) (x: [n]t): *[n]a =
    tabulate n (\i -> f (\d -> at b x (i + d)))

  def stencil_2d [n][m] 'a (b: border) (f: (i64 -> i64 -> t) -> a) (x: [n][m]t): *[n][m]a =
    tabulate_2d n m (\i j -> f (\d e -> at_2d b x (i + d) (j + e)))

  -- Correlations: weights k times what is there.  `valid`: where all of k is inside of x.  `same`: one at each place of
  -- x, k[m / 2] on it.  `full`: wherever some of k is inside.  Convolutions: k backwards.
  def correlate_valid [n][m] (k: [m]t) (x: [n]t): *[n - m + 1]t =
    tabulate (n - m + 1) (\i -> R.sum (map (\p -> k[p] * x[i + p]) (iota m)))

  def correlate_same [n][m] (b: border) (k: [m]t) (x: [n]t): *[n]t =
    tabulate n (\i -> R.sum (map (\p -> k[p] * at b x (i + p - m / 2)) (iota m)))

  def correlate_full [n][m] (k: [m]t) (x: [n]t): *[n + m - 1]t =
    tabulate (n + m - 1) (\i -> R.sum (map (\p -> k[p] * at #zero x (i + p - m + 1)) (iota m)))

  def convolve_valid [n][m] (k: [m]t) (x: [n]t): *[n - m + 1]t = correlate_valid (reverse k) x
  def convolve_same [n][m] (b: border) (k: [m]t) (x: [n]t): *[n]t = correlate_same b (reverse k) x
  def convolve_full [n][m] (k: [m]t) (x: [n]t): *[n + m - 1]t = correlate_full (reverse k) x

  def correlate_valid_2d [n][m][p][q] (k: [p][q]t) (x: [n][m]t): *[n - p + 1][m - q + 1]t =
    tabulate_2d (n - p + 1) (m - q + 1) (\i j ->
      R.sum (map (\r -> R.sum (map (\s -> k[r, s] * x[i + r, j + s]) (iota q))) (iota p)))

  def correlate_same_2d [n][m][p][q] (b: border) (k: [p][q]t) (x: [n][m]t): *[n][m]t =
    tabulate_2d n m (\i j ->
      R.sum (map (\r -> R.sum (map (\s -> k[r, s] * at_2d b x (i + r - p / 2) (j + s - q / 2)) (iota q))) (iota p)))

  def correlate_full_2d [n][m][p][q] (k: [p][q]t) (x: [n][m]t): *[n + p - 1][m + q - 1]t =
    tabulate_2d (n + p - 1) (m + q - 1) (\i j ->
      R.sum (map (\r -> R.sum (map (\s -> k[r, s] * at_2d #zero x (i + r - p + 1) (j + s - q + 1)) (iota q))) (iota p)))

  local def turned [p][q] (k: [p][q]t): [p][q]t = reverse (map reverse k)

  def convolve_valid_2d [n][m][p][q] (k: [p][q]t) (x: [n][m]t): *[n - p + 1][m - q + 1]t =
    correlate_valid_2d (turned k) x
  def convolve_same_2d [n][m][p][q] (b: border) (k: [p][q]t) (x: [n][m]t): *[n][m]t =
    correlate_same_2d b (turned k) x
  def convolve_full_2d [n][m][p][q] (k: [p][q]t) (x: [n][m]t): *[n + p - 1][m + q - 1]t =
    correlate_full_2d (turned k) x

  -- Layers of a network: a sum over channels of correlations, o of them; every `stride`th place.
  def channels [c][n][m][o] (k: [o][c][m]t) (stride: i64) (x: [c][n]t): *[o][(n - m) / stride + 1]t =
    tabulate_2d o ((n - m) / stride + 1) (\l i ->
      R.sum (map (\d -> R.sum (map (\p -> k[l, d, p] * x[d, i * stride + p]) (iota m))) (iota c)))

  def channels_2d [c][n][m][o][p][q] (k: [o][c][p][q]t) (stride: i64) (x: [c][n][m]t):
      *[o][(n - p) / stride + 1][(m - q) / stride + 1]t =
    tabulate_3d o ((n - p) / stride + 1) ((m - q) / stride + 1) (\l i j ->
      R.sum (map (\d -> R.sum (map (\r -> R.sum (map (\s ->
        k[l, d, r, s] * x[d, i * stride + r, j * stride + s]) (iota q))) (iota p))) (iota c)))

  -- The array with so many elements more on each side.
  def pad [n] (b: border) (before: i64) (after: i64) (x: [n]t): *[before + n + after]t =
    tabulate (before + n + after) (\i -> at b x (i - before))

  def pad_2d [n][m] (b: border) (up: i64) (down: i64) (left: i64) (right: i64) (x: [n][m]t):
      *[up + n + down][left + m + right]t =
    tabulate_2d (up + n + down) (left + m + right) (\i j -> at_2d b x (i - up) (j - left))
}

open mk_stencil f64
