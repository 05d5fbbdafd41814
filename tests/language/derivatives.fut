-- The derivative operators of the language.
def f (x: f64, y: f64) = x * x * y

-- ==
-- entry: forward
-- input { 3.0 2.0 } output { 12.0 18.0 9.0 }
entry forward (x: f64) (y: f64) =
  let (value, dy) = jvp2 f (x, y) (0, 1)
  in (jvp f (x, y) (1, 0), value, dy)

-- ==
-- entry: backward
-- input { 3.0 2.0 } output { 12.0 9.0 18.0 24.0 }
entry backward (x: f64) (y: f64) =
  let (dx, dy) = vjp f (x, y) 1
  let (value, (twice_dx, _)) = vjp2 f (x, y) 2
  in (dx, dy, value, twice_dx)

-- ==
-- entry: second_order
-- input { 2.0 } output { 12.0 }
entry second_order (x: f64): f64 = jvp (\y -> vjp (\z -> z * z * z) y 1) x 1

-- ==
-- entry: of_integers
-- input { 5 } output { 10 }
entry of_integers (x: i32): i32 = vjp (\y -> y * y) x 1

-- ==
-- entry: ties
-- input { 2.0 2.0 } output { 1.0 0.0 }
entry ties (x: f64) (y: f64): (f64, f64) =
  -- At a tie the derivative is that of the first argument.
  vjp (\(a, b) -> f64.max a b) (x, y) 1

-- ==
-- entry: vectors_of_seeds
-- input { 3.0 2.0 } output { [12.0, 9.0] }
entry vectors_of_seeds (x: f64) (y: f64): [2]f64 = jmp f (x, y) [(1, 0), (0, 1)]

-- ==
-- entry: custom
-- input { 3.0 } output { 9.0 100.0 }
entry custom (x: f64) =
  vjp2 (with_vjp (\(y: f64) -> y * y) (\_ (d: f64) -> d * 100)) x 1

-- ==
-- entry: inverse
-- input { 3.0 } output { 27.0 27.0 54.0 }
entry inverse (x: f64) =
  let f = with_inverse (\y -> y * y * y) f64.cbrt
  in (f x, vjp f x 1, jvp f x 2)

-- ==
-- entry: inverted
-- input { 17.0 [1i32, 2, 3] } output { 5.0 [3, 1, 2] 0.25 [3, 2, 0] }
entry inverted [n] (y: f64) (ys: [n]i32) =
  -- Derived by the compiler; of loops too.
  let f = \x -> 4 * x - 3
  let g (xs: [n]i32) : [n]i32 = loop xs for i < 2 do rotate 1 (map (\x -> x ^ i32.i64 i) xs)
  in (invert f y, invert (invert (rotate 1)) (rotate 1 ys), vjp (invert f) y 1, invert g ys)
