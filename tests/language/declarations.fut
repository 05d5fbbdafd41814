-- Top-level declarations: values, functions, polymorphism, parameters that are patterns, local ones.
def constant: i64 = 3
def table = map (* 2) (iota constant)
local def hidden (x: i32) = x * 10
let old_style (x: i32): i32 = hidden x

def pair 'a (x: a) y = (x, y)
def swap 'a 'b ((x, y): (a, b)): (b, a) = (y, x)
def sum_fields {a: i32, b: i32} = a + b
def my_reverse [n] 't (xs: [n]t): [n]t = xs[::-1]
open { def opened = 7i32 }

-- ==
-- entry: values
-- input { 4 }
-- output { [0i64, 2i64, 4i64] 40 7 }
entry values (x: i32) = (copy table, old_style x, opened)

-- ==
-- entry: polymorphism
-- input { 4 [1.0, 2.0] }
-- output { true 4 [2.0, 1.0] [[3, 4], [1, 2]] }
entry polymorphism (x: i32) (ys: []f64) =
  let (b, a) = swap (pair x true)
  in (b, a, my_reverse ys, my_reverse [[1, 2], [3, 4]])

-- ==
-- entry: patterns_as_parameters
-- input { 1 2 3 4 }
-- output { 10 }
entry patterns_as_parameters (a: i32) (b: i32) (c: i32) (d: i32): i32 =
  let f (x, {l, r = (y, _)}) = x + l + y
  in f (a, {l = b, r = (c, false)}) + sum_fields {a = d, b = 0}
