-- What is not moved, split or summed because something else would read it: an entry for each condition.

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

-- All of a row is written, from its end.
entry row_reversed [m] (x: [m]f64) (y: [m]f64) : [2][m]f64 =
  let g = replicate 2 (replicate m 0)
  let g[0, ::-1] = map (+ 1) y
  let g[1] = map (+ 2) x
  in map (map (* 2)) g

-- A row is overwritten after it was copied into the array of rows.
entry row_changed [m] (x: [m]f64) (y: [m]f64) : ([2][m]f64, [m]f64) =
  let g = replicate 2 (replicate m 0)
  let z = scan (+) 0 x
  let g[0] = z
  let z[0] = 5
  let g[1] = map (+ 2) y
  in (map (map (* 2)) g, z)

entry literal_changed [m] (x: [m]f64) (y: [m]f64) : ([2][m]f64, [m]f64) =
  let z = scan (+) 0 x
  let g = [z, scan (+) 0 y]
  let z[0] = 5
  in (map (map (* 2)) g, z)

-- What a product is added to was made from what is overwritten before the product.
entry given_back [n] (a: *[n][n]f64) (b: [n][n]f64) (c: [n][n]f64) : ([n][n]f64, [n][n]f64) =
  let p = map (map (* 2)) a
  let a[0, 0] = 9
  let q = map2 (map2 (+)) p (mm b c)
  in (map (map f64.sin) q, a)

-- A factor of a product is overwritten before the product is added to something.
entry added_to [n] (a: *[n][n]f64) (b: [n][n]f64) (c: [n][n]f64) : ([n][n]f64, [n][n]f64) =
  let p = mm a b
  let a[0, 0] = 9
  in (map2 (map2 (+)) c p, a)

entry added_to_turned [n] (a: *[n][n]f64) (b: [n][n]f64) (c: [n][n]f64) : ([n][n]f64, [n][n]f64) =
  let p = copy (transpose (mm a b))
  let a[0, 0] = 9
  in (map2 (map2 (+)) c p, a)

-- A vector is overwritten in the map around its product, after it; the product needs it as it was.
entry scaled_changed [n][k][q] (x: [n][k]f64) (b: [k][q]f64) : ([n][q]f64, [n][k]f64) =
  unzip (map (\r -> let z = scan (+) 0 r
                    let s = map2 (\w row -> map (w *) row) z b
                    let z[0] = 7
                    in (reduce (map2 (+)) (replicate q 0) s, z)) x)

-- Rows are copied, then the matrix is overwritten.
entry rows_changed [n] (m: *[3][n]f64) : ([n]f64, [n]f64, [3][n]f64) =
  let (a, b) = unzip (map (\x -> (x[1], x[0])) (transpose m))
  let m[1] = map (+ 1) a
  in (a, b, m)

-- A fold's operator looks at another element of its row.
entry folded_across [n][m] (xs: [n][4][m]f64) : [n][m]f64 =
  map (\x -> reduce (\a b -> map2 (\u v -> u + v + 0 * a[i64.f64 u % m]) a b) (replicate m 0) x) xs

-- Between two parts of a map that are parallel lies an array of the turn's own size.
entry irregular_parts [n][m] (xs: [n][m]f64) (ks: [n]i64) : ([n]f64, [n][m][m]f64) =
  unzip (map2 (\x k -> let q = i64.abs k % 5 + 1
                       let t = scan (+) 0 (map f64.i64 (iota q))
                       let s = f64.sum (map (\j -> t[j % q]) (iota m))
                       let z = mm (map (\v -> map (* v) x) x) (map (\v -> map (+ v) x) x)
                       in (s, map (map (* s)) z)) xs ks)

-- Each turn joins another row of its matrix to the first.
entry parts_vary [n][m][k] (xs: [n][k][m]f64) (js: [n]i64) (w: [m][m]f64) : ([n][]f64, [n][m][m]f64) =
  unzip (map2 (\x j -> let r = (x[j % k] ++ x[0]) :> [2 * m]f64
                       let z = mm (map (\v -> map (* v) x[1 % k]) x[1 % k]) w
                       in (r, z)) xs js)

-- Two turns of a loop read the same part.
entry half_turn [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [m][m]f64) =
  loop (p, q) = (w, w) for i < n do
    let g = mm xs[i / 2] w
    in (map2 (map2 (\x y -> f64.sin (x + y))) p g, map2 (map2 (+)) q (mm (transpose g) xs[i / 2]))

-- What is copied must not change with the copy.
entry part_of_copy [n] (xs: [n]f64) : ([]f64, [n]f64) =
  let e = (copy xs)[0:n / 2 + 1]
  let e[0] = 5
  in (e, xs)

-- What was repeated is overwritten before a part of the repetitions is read.
entry part_of_repeated [n] (a: *[n]f64) : ([2][n]f64, [n]f64) =
  let r = replicate 3 a
  let a[0] = 6
  let p = r[0:2]
  in (map (scan (+) 0) p, a)

-- Parts of repeated numbers are overwritten.
entry part_of_zeros [n] (x: [n]f64) : ([n]f64, [n]f64, [2][n]f64) =
  let m = replicate (2 * n) 0f64
  let r = m[0:n]
  let r = r with [0] = x[0]
  let z = replicate n (replicate 2 1f64)
  let t = transpose z
  let t = t with [1, 0] = x[0]
  let w = unflatten (replicate (2 * n) 1f64) :> [2][n]f64
  let w = w with [0, 0] = 5
  in (r, w[1], t)

-- A cheap producer reads what is overwritten before its second and third consumer, which read another's result.
entry cheap_changed [n] (a: *[n]f64) : (f64, f64, f64, [n]f64) =
  let p = map (* 2) a
  let s = f64.sum p
  let a[0] = s
  let t = f64.sum (map (/ s) p)
  let u = f64.maximum (map (/ t) p)
  in (s, t, u, a)

-- Of two equal results of one map one is overwritten.
entry equal_changed [n] (xs: [n]f64) : ([n]f64, [n]f64) =
  let ys = map (\x -> f64.sin x) xs
  let zs = map (\x -> f64.sin x) xs
  let ys[0] = 1
  in (ys, zs)

-- Two equal arrays of a size that only their branches know.
entry equal_sizes [n] (xs: [n]f64) (k: i64) : (f64, []f64) =
  let ys = if k > 1 then scan (+) 0 xs[0:n / 2] else scan (+) 0 xs[n / 2:]
  let zs = if k > 1 then scan (+) 0 xs[0:n / 2] else scan (+) 0 xs[n / 2:]
  in (f64.sum (scan (*) 1 zs), map (+ 1) ys)

-- Sums go to the first elements of a longer array.
entry longer [n][m] (w: [n][m]f64) : []f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (map2 (\a j -> a * #[unsafe] x[j]) r (iota m))) w)) (replicate (m + 2) 1) 1

-- Each turn's product has rows of its own number.
entry irregular_rows [n][m] (xs: [n][m][m]f64) (ks: [n]i64) : [m][m]f64 =
  vjp (\w -> f64.sum (map2 (\x k -> f64.sum (map f64.sum (mm x[0:i64.abs k % (m + 1)] w))) xs ks))
      (replicate m (replicate m 1)) 1

-- An accumulator's scope reads what a nest over the same rows makes.
entry read_there [n][m] (xs: [n][m][m]f64) : [m][m]f64 =
  vjp (\w -> f64.sum (map (\x -> f64.sum (map (\r -> f64.sum (map f64.sin r)) (mm x w))) xs))
      (replicate m (replicate m 1)) 1

-- The factors of a sum of products are of another shape than the rows that they come from.
entry flat_factors [n][a][b][m][k] (xs: [n][a][b][m]f64) (ys: [n][a][b][k]f64) : [m][k]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (map2 (\r s -> f64.sum (map2 (*) r s)) (mm (flatten x) w) (flatten y))) xs ys))
      (replicate m (replicate k 1)) 1

-- Rows that are transposed, and returned too.
entry rows_too [n] (xs: [n]f64) (ys: [n]f64) : ([2][n]f64, [n][2]f64) =
  let a = scan (+) 0 xs
  let b = scan (*) 1 ys
  let rows = map2 (\x y -> [x, y]) a b
  in (transpose rows, rows)

-- Rows of an array of matrices are matrices.
entry middle_rows [n][m] (a: [3][n][m]f64) : ([m][n]f64, [m]f64) =
  unzip (map (\x -> (x[1], f64.sum x[0])) (transpose (map transpose a)))

-- Assertions in the turns of maps that do nothing else but add.
entry asserts_one_place [n] (xs: [n]f64) : [3]f64 =
  intrinsics.hist_stream (replicate 3 0) (+) 0
    (\(a: *intrinsics.acc ([3]f64)) x -> let y = assert (x < 1.5) x in put a 1 y) xs

entry asserts_own_place [n] (xs: [n]f64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x) -> let y = assert (x < 1.5) x in put a i y) (zip (iota n) xs)

entry asserts_in_nest [n][m] (w: [n][m]f64) : [m]f64 =
  vjp (\x -> f64.sum (map (\r -> f64.sum (map2 (\a y -> assert (a < 1.5) (a * y)) r x)) w)) (replicate m 1) 1

entry asserts_in_turns [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : [m][m]f64 =
  loop q = w for i < n do
    let g = mm xs[i] w
    let g = assert (i < 5) g
    in map2 (map2 (+)) q (mm (transpose g) xs[i])

entry asserts_by_product [n][m][k] (xs: [n][2][m]f64) (ys: [n][2][k]f64) : [m][k]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               assert (x[0, 0] < 1.5) (f64.sum (map2 (\r s -> f64.sum (map2 (*) r s)) (mm x w) y))) xs ys))
      (replicate m (replicate k 1)) 1

def dot [n] (a: [n]f64) (b: [n]f64) : f64 = f64.sum (map2 (*) a b)

-- Each turn adds two outer products.
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

-- or to places that rows or turns have of their own.
entry to_places_of_rows [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [m]i64) : [m][m][m]f64 =
  vjp (\w -> f64.sum (map2 (\x y ->
               f64.sum (map3 (\x i s -> f64.sum (map2 (\y j -> x * y * #[unsafe] w[s, i, j]) y (iota m))) x (iota m) is))
               xs ys))
      (replicate m (replicate m (replicate m 1))) 1

entry to_places_of_turns [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [n]i64) : [m][m][m]f64 =
  vjp (\w -> f64.sum (map3 (\x y s ->
               f64.sum (map2 (\x i -> f64.sum (map2 (\y j -> x * y * #[unsafe] w[s, i, j]) y (iota m))) x (iota m)))
               xs ys is))
      (replicate m (replicate m (replicate m 1))) 1

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

-- or the number is each turn's own.
entry own_hot [n] (xs: [n]f64) (ks: [n]i64) : [n]f64 =
  intrinsics.hist_stream (replicate n 0) (+) 0
    (\(a: *intrinsics.acc ([n]f64)) (i, x, k) -> put a (i / 2) (x * (if i == k then 2 else 0))) (zip3 (iota n) xs ks)

-- What is folded of a pair depends on the pair.
entry by_left [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (ss: [n]f64) : [n]f64 =
  map2 (\x s -> f64.minimum (map (\y -> f64.sum (map2 (\a b -> (a - b) * (a - s)) x y)) ys)) xs ss

entry by_right [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (ss: [n]f64) : [n][n]f64 =
  map (\x -> map2 (\y s -> f64.sum (map2 (\a b -> (a - b) * (a - s)) x y)) ys ss) xs
