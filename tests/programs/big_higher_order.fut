-- A function too large to be evaluated in place, used with several functional arguments that capture values.
-- ==
-- input { [1.0, 2.0, 3.0] 2.0 }
-- output { 78.0 107.0 18.0 }
def work [n] (f: f64 -> f64) (g: f64 -> f64 -> f64) (xs: [n]f64): f64 =
  let ys = map f xs
  let zs = map2 g xs ys
  let total = f64.sum zs + f64.sum ys
  let scaled = map (\z -> z + total - total) zs
  let again = map2 (\a b -> g a b + 0 * total) xs ys
  in f64.sum scaled + f64.sum again + f64.sum ys - f64.sum (map (\x -> 0 * x) again)

entry main (xs: []f64) (k: f64) =
  let f x = x * k
  in ( work f (\a b -> a + b) xs + work f (\a b -> a - b + k - k) xs + 30
     , work (\x -> x + k) (*) xs - work (\_ -> 0) (\_ _ -> 0) xs + 43
     , work f (\_ _ -> k) xs - work id (\_ _ -> 0) xs
     )
