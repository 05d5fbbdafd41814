-- Factors of a sparse matrix of ratings (Koren, Bell, Volinsky, 2009).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [u][m][r][n] (users: [u][r]f64) (items: [m][r]f64) (is: [n]i64) (js: [n]i64) (ratings: [n]f64): f64 =
  let guess i j = f64.sum (map2 (*) users[i] items[j])
  let penalty a = f64.sum (map (\row -> f64.sum (map (** 2) row)) a)
  in f64.sum (map3 (\i j t -> (t - guess i j) ** 2) is js ratings) + 0.01 * (penalty users + penalty items)
