-- Names: primes, digits and underscores; names of values, types and module types do not clash.
-- ==
-- entry: names
-- input { 3 }
-- output { 24 }
type x' = i32
module type x_1 = { val x' : i32 }
module m: x_1 = { def x' = 20i32 }

def x_1 (x: x'): x' = x + 1
def x'' = m.x'
def inner = 1i32

entry names (x: i32): x' =
  let inner' = x_1 x
  in inner' + x''

-- ==
-- entry: contextual
-- input { 5 }
-- output { 16 }
entry contextual (unsafe: i32): i32 =
  let blank = 1
  let trace = 10
  in unsafe + blank + trace
