-- Sums by accumulators, and what leaves or enters their scopes: an entry for each condition.

def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : *[n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

-- Turns that do much, and then add to two bins.
entry heavy_twice [n][m] (is: [n]i64) (xs: [m]f64) : [3]f64 =
  intrinsics.hist_stream (replicate 3 1) (+) 0
    (\(a: *intrinsics.acc ([3]f64)) i ->
       let s = f64.sum (map (\x -> f64.sin (x + f64.i64 i)) xs) in put (put a (i % 3) s) ((i + 1) % 3) (s + 1)) is

-- A sum for each column goes to the place that an array says, or a sum of matrices is transposed.
entry other_place [n][m] (w: [n][m]f64) (x: [m]f64) (is: [m]i64) : [m]f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (map2 (\a i -> a * x[i % m]) r is)) w)) x 1

entry other_places [n][m] (w: [n][m][m]f64) (x: [m][m]f64) : [m][m]f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (tabulate m (\i -> f64.sum (tabulate m (\j -> r[i, j] * x[j, i]))))) w)) x 1

-- An accumulator that starts from ones is added to what could be its start.
entry other_start [n][k] (xs: *[k]f64) (is: [n]i64) : [k]f64 =
  let xs[0] = 3
  let h = intrinsics.hist_stream (replicate k 1) (+) 0
            (\(a: *intrinsics.acc ([k]f64)) i -> put a i (f64.sin (f64.i64 i))) is
  in map2 (+) xs h

-- Sums go to the first elements of a longer array.
entry longer [n][m] (w: [n][m]f64) : []f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (map2 (\a j -> a * #[unsafe] x[j]) r (iota m))) w)) (replicate (m + 2) 1) 1

-- An accumulator's scope reads what a nest over the same rows makes.
entry read_there [n][m] (xs: [n][m][m]f64) : [m][m]f64 =
  vjp (\w -> f64.sum (map (\x -> f64.sum (map (\r -> f64.sum (map f64.sin r)) (mm x w))) xs))
      (replicate m (replicate m 1)) 1

-- What a nest over an accumulator's rows makes is overwritten later, or made from the accumulator's first values.
entry absorbed_changed [n][m] (c: *[m]f64) (xs: [n][m]f64) : ([n]f64, [n][m]f64, [m]f64) =
  let ys = map (\r -> f64.maximum r) xs
  let zs = map (\r -> scan (+) 0 r) xs
  let d = intrinsics.hist_stream c (+) 0
            (\(a: *intrinsics.acc ([m]f64)) (r: [m]f64) -> put a (i64.f64 (10 * r[0]) % m) (f64.sum r)) xs
  let ys[0] = 1
  let zs[0, 0] = 1
  in (ys, zs, d)

entry absorbed_reads [n][m] (c: *[m]f64) (xs: [n][m]f64) : ([n]f64, [m]f64) =
  let ys = map (\r -> f64.sum (map2 (*) r c)) xs
  let d = intrinsics.hist_stream c (+) 0
            (\(a: *intrinsics.acc ([m]f64)) (r: [m]f64) -> put a (i64.f64 (10 * r[0]) % m) (f64.sum r)) xs
  in (ys, d)

-- Turns that add to a place of their own twice, so that numbers cannot be stored there,
entry own_place_twice [n] (xs: [n]f64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x) ->
       let j = if i + 1 >= n then i + 1 - n else i + 1 in put (put a j (x * xs[j])) j (x + 1)) (zip (iota n) xs)

-- to some of the places,
entry own_places_of_some [n][m] (x: [n]f64) (w: [m]f64) : [n]f64 =
  vjp (\x -> tabulate m (\i -> w[i] * #[unsafe] x[(i + 1) % m])) x w

-- and to places that are other ones if a sum wraps around.
entry own_places_overflow [n] (x: [n]f64) (w: [n]f64) : [n]f64 =
  vjp (\x -> tabulate n (\i -> w[i] * x[(i + 9223372036854775805) % n])) x w

-- An index is compared with a number, and what is added is not zero where they differ,
entry hot_or_not [n] (xs: [n]f64) (k: i64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x) -> put a (i / 2) (x * (if i == k then 2 else 3))) (zip (iota n) xs)

-- or the number is each iteration's own.
entry own_hot [n] (xs: [n]f64) (ks: [n]i64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x, k) -> put a (i / 2) (x * (if i == k then 2 else 0))) (zip3 (iota n) xs ks)
