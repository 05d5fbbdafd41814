-- Names bound again, in lets, loops, lambdas and patterns.
-- ==
-- input { 2 }
-- output { 10 5 [3, 4] }
entry main (x: i32) =
  let x = x + 1
  let y = let x = x * 2 in x + 1
  let (x, z) = (x + y, x)
  in (x, loop x = z for x' in [1, 1] do x + x', map (\x -> x + 2) [1, 2])
