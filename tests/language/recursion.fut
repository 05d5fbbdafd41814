-- Recursive functions that end with their call, which all backends run as loops.
-- (tests/backend/test_recursion.py has those of other forms.)

def gcd (a: i64) (b: i64) : i64 = if b == 0 then a else gcd b (a % b)

-- ==
-- entry: divisor
-- input { 48i64 18i64 } output { 6i64 }
-- input { 5i64 0i64 } output { 5i64 }
entry divisor = gcd

-- A function as parameter is passed on as it is.
def repeat 't (f: t -> t) (n: i64) (x: t) : t = if n == 0 then x else repeat f (n - 1) (f x)

-- ==
-- entry: repeated
-- input { 3i64 1.0 } output { 8.0 4.0 }
entry repeated (n: i64) (x: f64) : (f64, f64) = (repeat (* 2) n x, repeat (+ 1) n x)

-- Sizes are parameters, that of the result is known when it is computed.
def dropped [n] (xs: [n]f64) (limit: f64) : []f64 =
  if n == 0 then xs else if xs[0] > limit then xs else dropped (drop 1 xs) limit

-- ==
-- entry: after
-- input { [1.0, 2.0, 3.0, 0.0] 1.5 } output { [2.0, 3.0, 0.0] }
-- input { [1.0] 1.5 } output { empty([0]f64) }
entry after [n] (xs: [n]f64) (limit: f64) : []f64 = dropped xs limit

-- Functions that call each other declare their types.
def even (n: i64) : bool = if n == 0 then true else odd (n - 1)
def odd (n: i64) : bool = if n == 0 then false else even (n - 1)

-- ==
-- entry: parity
-- input { 7i64 } output { false true }
-- input { 1000i64 } output { true false }
entry parity (n: i64) : (bool, bool) = (even n, odd n)

-- What is overwritten in each call is not copied.
def squares [n] (xs: *[n]i64) (i: i64) : *[n]i64 = if i == n then xs else squares (xs with [i] = i * i) (i + 1)

-- ==
-- entry: filled
-- input { 4i64 } output { [0i64, 1i64, 4i64, 9i64] }
entry filled (n: i64) : [n]i64 = squares (replicate n 0) 0
