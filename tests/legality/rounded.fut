-- The product is squared by the loop that finds the maximum, and only added to by the one that finds its place: with -O3
-- a compiler contracts the latter (tests/optimise/test_rounded.py).
entry contracted [n] (xs: [n]f64) (ys: [n]f64): ([n]f64, [n]f64) =
  let f xs ys = let ps = map2 (*) xs ys in f64.maximum (map (+ 0.3) ps) + f64.sum (map (\p -> p * p) ps)
  in vjp (\(xs, ys) -> f xs ys) (xs, ys) 1
-- at -O3
