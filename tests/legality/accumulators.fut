-- What becomes of accumulators: an entry for each condition.
def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v

entry two_updates [n] (xs: [n]f64) : [n]f64 =
  intrinsics.hist_stream (copy xs) (+) 0 (\(a: *intrinsics.acc ([n]f64)) i -> put (put a 0 1) 0 (f64.i64 i)) (iota n)

entry one_place [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  intrinsics.hist_stream (copy xs) (+) 0 (\(a: *intrinsics.acc ([n]f64)) i -> put a i xs[i]) is

entry not_zero [n] (xs: [n]f64) : [n]f64 =
  intrinsics.hist_stream (copy xs) (+) 0 (\(a: *intrinsics.acc ([n]f64)) i -> put a i (2 * f64.i64 i)) (iota n)

entry some_places [n] (x: [n]f64) : [n]f64 = vjp (\x -> f64.sum (map (\i -> x[i] * x[i]) (iota (n / 2)))) x 1

entry rows_vary [n][m] (x: [n][m]f64) (is: [m]i64) : [n][m]f64 =
  vjp (\x -> f64.sum (tabulate m (\i -> x[is[i], i] * x[is[i], i]))) x 1

entry product [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  intrinsics.hist_stream (copy xs) (*) 1 (\(a: *intrinsics.acc ([n]f64)) i -> put a i 2) is

entry least [n][m] (xs: [n][m]f64) : [n][m]f64 = vjp (\xs -> f64.sum (map f64.minimum xs)) xs 1

entry wrapped [n] (x: [n]f64) (w: [n]f64) (k: i64) : [n]f64 =
  vjp (\x -> tabulate n (\i -> w[i] * x[i % i64.max 1 k % n])) x w

entry halves [n] (x: [n]f64) (w: [n]f64) : [n]f64 = vjp (\x -> tabulate n (\i -> w[i] * x[i / 2])) x w

entry last [n] (x: [n]f64) (w: [n]f64) : [n]f64 =
  vjp (\x -> tabulate n (\i -> w[i] * x[if i < n / 2 then i else 0])) x w

entry several [n] (x: [n]f64) (w: [n]f64) : [n]f64 =
  vjp (\x -> tabulate n (\i -> w[i] * x[i] + x[(i + 1) % n] * x[i])) x w

-- The second update of an iteration goes to a place of its own too, which is another iteration's first.
entry neighbours [n] (xs: [n]f64) (ys: [n]f64) =
  vjp (\xs -> map (\i -> xs[(i + 1) % n] * xs[(i + n - 1) % n]) (iota n)) xs ys

-- Rows of adjoints that are added to those outside, where a row's elements are read at known places.
entry places_beside [m][n] (q: [m][n]f64) (k: i64) : [m][n]f64 =
  vjp (\q -> f64.sum (tabulate n (\i -> f64.sum (map (\r -> r[i] * r[(i + 1) % n] * f64.sum (map (** 3) r)) (take k q))))) q 1

entry places_written [m][n] (q: [m][n]f64) (k: i64) : [m][n]f64 =
  let cut (r: [n]f64) i = (copy r with [0] = 2)[i] * f64.i64 (i + 1)
  in vjp (\q -> f64.sum (tabulate n (\i -> f64.sum (map (\r -> cut r i) (take k q))))) q 1
