-- Type and size parameters, abbreviations with parameters.
-- ==
-- input { [1, 2] [1.5, 2.5] }
-- output { 2 1 2.5 1.5 [2, 1] [[1, 2], [1, 2]] [1, 2, 1, 2] 1 1.5 }
type pair 'a 'b = (a, b)

type matrix [n] [m] 'a = [n][m]a

def swap 'a 'b ((x, y): pair a b): pair b a = (y, x)

def twice_rows [n] 'a (xs: [n]a): matrix [2] [n] a = replicate 2 xs

def first_two [n] 'a (xs: [n]a): (a, a) = (xs[0], xs[1])

entry main (xs: [2]i32) (ys: [2]f64) =
  let (a, b) = swap (first_two xs)
  let (c, d) = swap (first_two ys)
  let zs = twice_rows xs
  let (p, q) = swap (ys[0], xs[0])
  in (a, b, c, d, [a, b], zs, flatten zs, p, q)
