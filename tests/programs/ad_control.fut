-- Derivatives through branches, loops, scans, histograms and updates.
-- ==
-- input { [1.0, 2.0, 3.0] }
-- output { [1.0, 8.0, 12.0] [6.0, 3.0, 2.0] [3.0, 2.0, 1.0] [2.0, 4.0, 6.0] [0.0, 1.0, 1.0] }
entry main (xs: [3]f64) =
  let branchy ys = f64.sum (map (\y -> if y > 1.5 then 2 * y * y else y) ys)
  let product ys = loop p = 1 for y in ys do p * y
  let scans ys = f64.sum (scan (+) 0 ys)
  let hists ys = let h = hist (+) 0 3 [0, 1, 2] ys in f64.sum (map2 (*) h h)
  let updates (ys: [3]f64) = f64.sum (copy ys with [0] = 7)
  in (vjp branchy xs 1, vjp product xs 1, vjp scans xs 1, vjp hists xs 1, vjp updates xs 1)
