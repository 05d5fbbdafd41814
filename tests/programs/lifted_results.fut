-- Type parameters that may stand for arrays of unknown size: each value has sizes of its own.
type^ option '~a = #some a | #none

def apply 'a '^b (f: a -> b) (x: a): b = f x
def both '^a '^b (f: a -> b) (x: a) (y: a) = (f x, f y)
def within 'a '~b (f: a -> b) (o: option a): option b =
  match o
  case #some a -> #some (f a)
  case #none -> #none
def rectangle (n: i64) (m: i64) (b: bool) = replicate n (replicate m b)
def shape = uncurry rectangle

-- ==
-- entry: main
-- input { 1i64 2i64 [1, -2, -3] }
-- output { [0i64] [0i64] [0i64, 1] [-2, -3] [[true, true]] }
-- input { 0i64 1i64 [1] }
-- output { empty([0]i64) empty([0]i64) [0i64] empty([0]i32) empty([0][1]bool) }
entry main n m (xs: []i32) =
  let (a, b) = both iota n m
  let negative = match within (filter (< 0)) (#some xs)
                 case #some ys -> ys
                 case #none -> []
  in (apply iota n, a, b, negative, shape (n, m) true)
