-- Maxima that results are shifted by and back, and such that they are not: `ad/shifts.py`.

def grad [n] (f: [n]f64 -> f64) (xs: [n]f64): [n]f64 = vjp f xs 1
def exps [n] (m: f64) (xs: [n]f64): [n]f64 = map (\x -> f64.exp (x - m)) xs

entry logsumexp [n] (xs: [n]f64) =
  grad (\xs -> let m = f64.maximum xs in m + f64.log (f64.sum (exps m xs))) xs

-- The sum is of other weights.
entry one_more [n] (xs: [n]f64) =
  grad (\xs -> let m = f64.maximum xs in m + f64.log (f64.sum (map (\x -> 1 + f64.exp (x - m)) xs))) xs
entry from_one [n] (xs: [n]f64) =
  grad (\xs -> let m = f64.maximum xs in m + f64.log (reduce (+) 1 (exps m xs))) xs

-- The result is shifted.
entry left_out [n] (xs: [n]f64) =
  grad (\xs -> let m = f64.maximum xs in f64.log (f64.sum (exps m xs))) xs

-- A sine has no weight.
entry sine [n] (xs: [n]f64) =
  grad (\xs -> let m = f64.maximum xs in f64.sin (m - 1)) xs
