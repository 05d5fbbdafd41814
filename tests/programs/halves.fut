-- Adjoints in f16, of elements that several results read: sums that devices take in memory.
-- ==
-- entry: gradients
-- input { [[1f16, 2f16, 3f16], [0.5f16, -1f16, 2f16]] }
-- output { [[2f16, 7f16, 2f16], [1f16, 0f16, -1f16]] }
-- input { empty([0][2]f16) } output { empty([0][2]f16) }
entry gradients [b][n] (xs: [b][n]f16): [b][n]f16 =
  map (\x -> vjp (\x -> f16.sum (map (\i -> x[(i * i) % n] * x[i]) (iota n))) x 1) xs
