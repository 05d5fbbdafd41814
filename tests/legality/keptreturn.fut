-- The array is turned round in each iteration: what an iteration has read is elsewhere in the end.
entry turned_round [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n - 1 do
                         let v = a[i]
                         let b = a[::-1]
                         in b with [i + 1] = f64.sin v * xs[i])) xs 1
entry transposed [n] (xs: [n][n]f64) : [n][n]f64 =
  vjp (\xs -> f64.sum (flatten (loop a = copy xs for i < n - 1 do
                         let v = map f64.sin a[i]
                         let b = transpose a
                         in b with [i + 1] = v))) xs 1
