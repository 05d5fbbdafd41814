-- One adjoint is given for two results; both go on to be added to.
entry seed_twice [n] (a: [n]f64) (b: [n]f64) (is: [n]i64) (s: [n]f64) =
  vjp (\(a, b) -> let p = map f64.sin a
                  let q = map f64.cos b
                  in (p, q, f64.sum (map (\i -> p[i % n] * q[(i + 1) % n]) is))) (a, b) (s, s, 1)

-- Of floats that differ by many orders of magnitude, what follows an element is not the result less what precedes it.
entry magnitudes [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> let (_, b) = reduce (\(a, b) (c, d) -> (a + c, b + d + a * c)) (0, 0)
                                  (zip (map (\x -> f64.exp (100 * x)) xs) xs) in b) xs 1

-- The prefix occurs more than once, and in products.
entry prefixes [n] (xs: [n]i64) : [n]i64 =
  vjp (\xs -> let (a, b, c) = reduce (\(a, b, c) (d, e, f) -> (a + d, b + e + a * d, c + f + b * d + a * e)) (0, 0, 0)
                                     (zip3 xs xs xs) in a * b + c) xs 1
entry affine [n] (xs: [n]i64) : [n]i64 =
  vjp (\xs -> let (a, b) = reduce (\(a, b) (c, d) -> (a + c, d + b * (1 + a - a) + (a * c + b) - b)) (0, 0) (zip xs xs)
              in a * b) xs 1
