-- Records and slopes of recursive calls, tasks around them.

-- An array is given to all calls: what is added to it is no number. One result of two with adjoints.
def captured [n] (xs: [n]f64) (at: i64) (k: i64): f64 =
  if k <= 1 then xs[at % n] * xs[(at + 1) % n] else
  let (a, b) = par (captured xs at) (captured xs (at + k / 2)) (k / 2, k - k / 2) in f64.sin (a + 2 * b)
entry array_outside [n] (xs: [n]f64) = vjp (\xs -> captured xs 0 n) xs 1

def pairs (d: i64) (x: f64) (y: f64): (f64, f64) =
  if d == 0 then (f64.sin x, x * y) else
  let ((a, b), (c, e)) = par (\(x, y) -> pairs (d - 1) x y) (\z -> pairs (d - 1) (z * y) x) ((x * 0.9, y), x + y)
  in (f64.tanh (a * c), f64.tanh (b * e + y))
entry two_adjoints (x: f64) (y: f64) = vjp (\(x, y) -> let (a, b) = pairs 2 x y in a + 2 * b) (x, y) 1

-- Derivatives of derivatives, and many directions.
entry twice (x: f64) (y: f64) = jvp (\(x, y) -> (vjp (\(x, y) -> (pairs 2 x y).1) (x, y) 1).0) (x, y) (1, 0.5)
entry reverse_twice [n] (xs: [n]f64) = vjp (\xs -> f64.sum (vjp (\xs -> captured xs 0 n) xs 1)) xs 1
entry directions (x: f64) (y: f64) =
  mjp (\(x, y) -> let (a, b) = pairs 2 x y in a + 2 * b) (x, y) [1, 0.5]

-- The number of elements that a call returns is known when it has returned.
def evens [n] (k: i64) (xs: [n]f64): []f64 =
  if k <= 0 then map (\x -> x * x) xs
  else let ys = evens (k - 1) (map (* 1.1) xs) in filter (> 0.5) ys ++ [f64.sum ys]
entry sizes_inside [n] (xs: [n]f64) = vjp (\xs -> f64.sum (evens 2 xs)) xs 1

def halves [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then map (\x -> x * x) xs
  else let h = n / 2
       let ys = halves (take h xs)
       let zs = halves (drop h xs)
       in map2 (*) (ys ++ zs :> [n]f64) (zs ++ ys :> [n]f64)
entry sizes_computed [n] (xs: [n]f64) = vjp (\xs -> f64.sum (halves xs)) xs 1
