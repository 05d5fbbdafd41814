-- The value has changed when an element of the row is read, whose place is known.
entry changed_later (a: *[3][4]f64) (v: *[4]f64) : (f64, [3][4]f64, [4]f64) =
  let a[0] = v
  let v[1] = 9
  let q = a[0, 1]
  in (q, a, v)
