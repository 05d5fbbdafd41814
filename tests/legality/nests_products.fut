-- What is no product of matrices, or not added as one: an entry for each condition.

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : *[n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

def dot [n] (a: [n]f64) (b: [n]f64) : f64 = f64.sum (map2 (*) a b)

-- Each iteration's product has rows of its own number.
entry irregular_rows [n][m] (xs: [n][m][m]f64) (ks: [n]i64) : [m][m]f64 =
  vjp (\w -> f64.sum (map2 (\x k -> f64.sum (map f64.sum (mm x[0:i64.abs k % (m + 1)] w))) xs ks))
      (replicate m (replicate m 1)) 1

-- The factors of a sum of products are of another shape than the rows that they come from.
entry flat_factors [n][a][b][m][k] (xs: [n][a][b][m]f64) (ys: [n][a][b][k]f64) : [m][k]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (map2 (\r s -> f64.sum (map2 (*) r s)) (mm (flatten x) w) (flatten y))) xs ys))
      (replicate m (replicate k 1)) 1

-- Each iteration adds two outer products.
entry two_terms [n][m] (xs: [n][m]f64) (ys: [n][m]f64) : [m][m]f64 =
  vjp (\w -> f64.sum (map2 (\x y -> dot x (map (dot y) w) + dot y (map (dot x) w)) xs ys))
      (replicate m (replicate m 1)) 1

-- Outer products, and products with vectors, that are added to a part of an array,
entry to_a_part [n][m][k] (xs: [n][m]f64) (ys: [n][m]f64) (w0: [k][k]f64) : [k][k]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (tabulate m (\i -> f64.sum (tabulate m (\j -> x[i] * y[j] * #[unsafe] w[i, j]))))) xs ys)) w0 1

entry to_less_than_all [n][m] (xs: [n][m]f64) (ys: [n][m]f64) : [][]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (tabulate m (\i -> f64.sum (tabulate m (\j -> x[i] * y[j] * w[i, j]))))) xs ys))
      (replicate (m + 1) (replicate (m + 2) 1)) 1

-- transposed,
entry to_transposed [n][m] (a: [m][m][m]f64) (vs: [n][m]f64) : [m][m]f64 =
  vjp (\w -> f64.sum (map (\v ->
               f64.sum (map2 (\ai i ->
                 f64.sum (map2 (\aij j -> f64.sum (map2 (\x y -> x * y * w[j, i]) aij v)) ai (iota m))) a (iota m))) vs))
      (replicate m (replicate m 1)) 1

-- or to places that rows or iterations have of their own.
entry to_places_of_rows [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [m]i64) : [m][m][m]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (map3 (\x i s -> f64.sum (map2 (\y j -> x * y * #[unsafe] w[s, i, j]) y (iota m))) x (iota m) is))
               xs ys))
      (replicate m (replicate m (replicate m 1))) 1

entry to_places_of_iterations [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [n]i64) : [m][m][m]f64 =
  vjp (\w -> f64.sum (map3 (\x y s ->
               f64.sum (map2 (\x i -> f64.sum (map2 (\y j -> x * y * #[unsafe] w[s, i, j]) y (iota m))) x (iota m)))
               xs ys is))
      (replicate m (replicate m (replicate m 1))) 1

-- One tile of pairs of long rows, of which the least term is wanted and not their sum.
def four [m][k] (xs: [m][k]f64) : [m][k + k + k + k]f64 = map (\(x: [k]f64) -> x ++ x ++ x ++ x) xs

entry least_terms [k][p][m][n] (_w: [k]f64) (_v: [p]f64) (xs: [m][k]f64) (ys: [n][k]f64): [][n]f64 =
  let (us, vs) = (four xs[:m / 2], four ys)
  in map (\x -> map (\y -> f64.minimum (map2 (\a b -> (a - b) * (a - b)) x y)) vs) us
