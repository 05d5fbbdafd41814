-- Log densities, and sums of exponentials.  See docs/library.md.

-- log (sum (exp xs)), without overflow; -inf of no numbers.
def logsumexp [n] (xs: [n]f64): f64 =
  let m = f64.maximum xs
  let m = if f64.isinf m || f64.isnan m then 0 else m
  in m + f64.log (f64.sum (map (\x -> f64.exp (x - m)) xs))
