-- Folds of folds by one operator, which are one fold on devices, and by two.
entry highest [n][m] (xss: [n][m]f64) : f64 = f64.sum (map (\xs -> f64.maximum (map (* 2) xs)) xss)
entry total [n][m] (xss: [n][m]f64) : f64 = f64.sum (map (\xs -> f64.sum (map f64.sin xs)) xss)
