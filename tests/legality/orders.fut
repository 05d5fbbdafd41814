-- The derivative that a function brings is not that of its body: it tells whether anybody looked at it.
-- ==
-- entry: looked_at
-- input { 1.5 }
-- output { 675.0 }
def cube (x: f64): f64 = with_vjp (\x -> x * x * x) (\y d -> 200 * y * d) x
entry looked_at (x: f64): f64 = vjp cube x 1

-- The derivative that is brought has a function with one of its own: the second derivative looks at it.
-- ==
-- entry: looked_at_twice
-- input { 1.5 }
-- output { 79.734375 }
def square (x: f64): f64 = with_vjp (\x -> x * x) (\_ d -> 7 * d) x
def outer (x: f64): f64 = with_vjp (\x -> x * x * x) (\y d -> square y * d) x
entry looked_at_twice (x: f64): f64 = vjp (\x -> vjp outer x 1) x 1
