-- Programs that tempt folds of all elements of a matrix to be folds of its rows.

-- What the fold begins with counts, once.
entry from_one [n][m] (x: [n][m]f64): f64 = reduce (+) 1 (flatten (map (map f64.ceil) x))
