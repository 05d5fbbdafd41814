-- Rows of a grid, of which the first and the last have a neighbour less.
entry held [n][m] (u: [n][m]f64): [n][m]f64 =
  tabulate_2d n m (\i j ->
    let at a b = if a < 0 || a >= n || b < 0 || b >= m then u[i, j] else u[a, b]
    in at (i - 1) j - 2 * at (i + 2) j + 3 * at i (j - 1) - 4 * at i (j + 1))

-- The row of another array of the same shape.
entry other [n][m] (u: [n][m]f64) (v: [n][m]f64): [n][m]f64 =
  tabulate_2d n m (\i j -> u[i, j] * v[i, j] + (if i == 0 then v[i, j] else u[i - 1, j]))

-- Elements that lie the other way round, or farther apart.
entry turned [n] (u: [n][n]f64): [n][n]f64 =
  tabulate_2d n n (\i j -> u[i, j] + (if i > 1 then u[i, n - 1 - j] else u[i + 1, j]) + (if i > 2 then u[j, i] else u[i, j]))

entry back [n][m] (u: [n][m]f64): [n][m]f64 = vjp held u u
