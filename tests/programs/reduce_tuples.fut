-- A reduction over pairs: the largest element and its index.
-- ==
-- input { [3.0, 9.0, 2.0, 9.0] }
-- output { 9.0 1i64 }
-- input { empty([0]f64) }
-- output { -f64.inf -1i64 }
def argmax [n] (xs: [n]f64): (f64, i64) =
  reduce (\(x, i) (y, j) -> if y > x then (y, j) else (x, i))
         (f64.lowest, -1)
         (zip xs (iota n))

entry main (xs: []f64): (f64, i64) = argmax xs
