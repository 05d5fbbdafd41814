-- Entry points: `main` needs no keyword, one function may be tested several times, results of function type take
-- more arguments.
-- ==
-- entry: main again
-- input { 2 } output { 4 }
-- input { 3 } output { 6 }
def main (x: i32): i32 = x * 2
entry again = main

-- ==
-- entry: curried
-- input { 5 7 } output { 12 }
entry curried (x: i32): i32 -> i32 = \y -> x + y

-- ==
-- entry: gradient
-- input { [1.0, 2.0] 1.0 } output { [2.0, 4.0] }
entry gradient [n] (xs: [n]f64) : f64 -> [n]f64 = vjp (\ys -> f64.sum (map (\y -> y * y) ys)) xs
