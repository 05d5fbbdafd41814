-- Quotients and remainders of an iteration: an entry for each condition.
-- The last quotient has fewer remainders.
entry no_parts (k: [3]f64) (x: [20][30]f64) : []f64 =
  tabulate 400 (\s -> let (y, z) = (s / 30, s % 30) in f64.sum (tabulate 3 (\p -> k[p] * x[y + p, z])))

-- One iteration, of two negative sizes.
entry negative [n] (k: [3]f64) (x: [n][n]f64) : []f64 =
  tabulate ((n - 1) * (n - 1)) (\s ->
    let (y, z) = (s / (n - 1), s % (n - 1))
    in f64.sum (tabulate 3 (\p -> k[p] * (if y + p >= n then 0 else x[y + p, z]))))
