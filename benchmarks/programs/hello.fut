-- The smallest program with a derivative: the square of a number.

-- ==
-- entry: square
-- input { 3.0 } output { 9.0 }
-- input { -0.5 } output { 0.25 }
entry square (x: f64): f64 = x * x

-- ==
-- entry: double
-- input { 3.0 } output { 6.0 }
-- input { -0.5 } output { -1.0 }
entry double (x: f64): f64 = vjp square x 1
