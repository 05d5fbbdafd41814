-- What sinking updates must not do: an entry for each condition.

-- Rows of the array itself change places.
entry swapped [m] (a: *[3][2][m]f64) : [3][2][m]f64 = a with [0] = [copy a[0, 1], a[0, 0]]

-- The value has changed when the row is read.
entry changed [m] (a: *[3][m]f64) (v: *[m]f64) : (f64, [3][m]f64, [m]f64) =
  let a[0] = v
  let v[0] = 9
  let q = a[0, 0]
  in (q, a, v)

-- The row that is read is overwritten, the value is not.
entry written [m] (a: *[3][2][m]f64) (v: [2][m]f64) : ([m]f64, f64) =
  let a[0] = v
  let q = a[0, 1]
  let q[0] = 7
  in (q, f64.sum v[1])

-- Rows are read between the updates, and of other places.
entry between [m] (a: *[3][m]f64) (v: [m]f64) : ([3][m]f64, f64) =
  let a[0] = map2 (+) a[0] v
  let q = f64.sum a[1]
  let a[1] = map2 (*) a[1] v
  let r = f64.sum a[1]
  let a[2] = map2 (+) a[0] v
  in (a, q * r)

-- A value is overwritten before the update that could wait for it.
entry waiting [m] (a: *[3][m]f64) (v: *[m]f64) : ([3][m]f64, [m]f64) =
  let a[0] = v
  let x = map (+ 1) a[1]
  let v[0] = 9
  let a[1] = map2 (+) x a[2]
  in (a, v)

-- One of two updates is of a part only.
entry parts [m] (a: *[2][m]f64) (v: [m]f64) : [2][m]f64 =
  let a[0] = map (+ 1) a[0]
  let a[1] = map2 (+) a[1] v
  in a

-- The row that is read is the one that waits in one iteration, and another one in the rest.
entry row_of_one_iteration [n] [m] (a: *[n][m]f64) (v: [m]f64) : [n][m]f64 =
  loop a for i < n do
    let a[i] = v
    let a[n - 1 - i] = map2 (*) a[n - 1 - i] v
    in a
