-- Programs that tempt lanes at rest to read past an array's end: some never begin, or stop where there is none.

entry begins_past_the_end [n] (xs: [n]f64): [40]f64 =
  tabulate 40 (\i -> (loop (s, j) = (0, (i % 3) * 100000000000) while j < n do
                        (s + f64.exp (f64.sin (xs[j] + s)), j + 1)).0)
-- The same in rows; and rows that some have not.
entry row_past_the_end [n] (xs: [40][n]f64): [40]f64 =
  tabulate 40 (\i -> (loop (s, j) = (0, (i % 3) * 100000000000) while j < n do
                        (s + f64.exp (f64.sin (xs[i, j] + s)), j + 1)).0)
entry no_row [n] (xs: [n][8]f64): [40]f64 =
  tabulate 40 (\i -> let r = (i % 3) * 100000000000
                     in (loop (s, j) = (0, 0) while r < n && j < 8 do
                           (s + f64.exp (f64.sin (xs[r, j] + s)), j + 1)).0)
-- Loops that end by two conditions, in both of which lanes differ.
entry ends_by_both [n] (xs: [n]f64) (ys: [n]f64): [n]f64 =
  map2 (\x y -> let (a, b) = loop (a, b) = (x, y) while f64.sin a < 0.9 && b > 0.1 do
                  (a + 0.3 + f64.exp (-a * a), b * f64.exp (-0.2 * a * a))
                in a + b) xs ys
