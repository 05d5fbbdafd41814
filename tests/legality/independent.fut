-- Loops over an array that are no maps, and nests whose loops do not change places: an entry for each condition.

-- An iteration reads what those before it have written.
entry recurrence [n] (b: [n]f64): [n]f64 =
  loop x = replicate n 1 for i < n do x with [i] = b[i] - f64.sum (map (* 0.5) x[:i])

-- An iteration reads what those after it are to write.
entry ahead [n] (b: [n]f64): [n]f64 =
  loop x = copy b for i < n do x with [i] = b[i] - f64.sum (map (* 0.5) x[i + 1:])

-- There may be no iterations, fewer than none.
entry none [n] (k: i64) (b: [n]f64): [n]f64 =
  loop x = copy b for i < i64.min n (k % 4 - 3) do x with [i] = 2 + f64.sum b

-- An iteration reads a column further right of the rows before it, which is written by then, and its own row.
entry turned [n][m] (a: [n][m]f64): [n][m]f64 =
  loop x = copy a for i < n do
    loop x for j < m - 1 do
      x with [i, j] = a[i, j] + f64.sum (map (* 0.5) x[:i, j + 1]) - f64.sum (map (* 0.25) x[i, :j])

-- A part that is only there if there are iterations: the first row of no rows.
entry first_row [m] (k: i64) (b: [m][2]f64): [][2]f64 =
  let n = i64.min m (i64.abs k % 2)
  in loop x = copy b[:n] for i < n do x with [i, 1] = 2 + f64.sum x[0, :1]
