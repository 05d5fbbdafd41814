-- Function values that consume an array they were given before: each application has a copy.
-- ==
-- entry: twice
-- input { [0i64, 0, 2] [1.0, 2.0, 3.0] }
-- output { [4.0, 1.0, 4.0] [7.0, 1.0, 7.0] }
entry twice [n] (is: [n]i64) (xs: [n]f64) =
  let f = reduce_by_index (map f64.exp (replicate n 0)) (+) 0f64 is
  in (f xs, f (map (* 2) xs))

-- ==
-- entry: many
-- input { [0i64, 7, 2] [1.0, 2.0, 3.0] }
-- output { [[1.0, 1.0, 3.0], [2.0, 1.0, 6.0], [3.0, 1.0, 9.0]] }
entry many [n] (is: [n]i64) (xs: [n]f64) =
  let f = scatter (map f64.exp (replicate n 0)) is
  in map (\x -> f (map (* x) xs)) xs

-- ==
-- entry: apart
-- input { [0i64, 7, 2] [1.0, 2.0, 3.0] }
-- output { [1.0, 1.0, 3.0] [2.0, 1.0, 6.0] }
#[noinline]
def both [n] (f: [n]f64 -> [n]f64) (xs: [n]f64) = (f xs, f (map (* 2) xs))
entry apart [n] (is: [n]i64) (xs: [n]f64) = both (scatter (map f64.exp (replicate n 0)) is) xs

-- ==
-- entry: written
-- input { [0i64, 0, 2] [1.0, 2.0, 3.0] }
-- output { [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]] }
entry written [n] (_: [n]i64) (xs: [n]f64) =
  let put (d: *[2]f64) (i: i64) (v: f64) = d with [i] = v
  let f = put (map f64.exp (replicate 2 0))
  in map (f 1) xs

-- The gradient of one: the derivative's sweeps are more than one application.
-- ==
-- entry: products
-- input { [0i64, 0, 2] [1.0, 2.0, 3.0] }
-- output { [2.0, 1.0, 3.0] }
entry products [n] (is: [n]i64) (xs: [n]f64) =
  vjp (reduce_by_index (map f64.exp (replicate n 0)) (*) 1 is) xs (map f64.i64 (iota n |> map (+ 1)))
