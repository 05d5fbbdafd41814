-- An element that nobody reads is asserted about.
-- ==
-- entry: asserted
-- input { [4.0, 9.0, -1.0] }
entry asserted [n] (xs: [n]f64) =
  vjp (\xs -> take (n - 1) (map (\x -> assert (x > 0) (f64.sqrt x)) xs)) xs (replicate (n - 1) 1)

-- Two slices are read, which overlap.
entry both_slices [n] (xs: [n]f64) =
  vjp (\xs -> let ys = map f64.sqrt xs in f64.sum (map2 (*) (init ys) (tail ys))) xs 1
