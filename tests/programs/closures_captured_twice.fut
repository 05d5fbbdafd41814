-- Two closures of one function with different captured values, both used later.
-- ==
-- input { 5 }
-- output { 21 [6, 7] }
def add_to (y: i32) = \x -> x + y

entry main (n: i32) =
  let g = add_to 1
  let h = add_to 10
  in (g n + h n, [g n, g (n + 1)])
