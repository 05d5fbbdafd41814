-- Programs that tempt maps to run their iterations side by side, in blocks, in parts or through buffers.

-- An operator whose loop reads one sum, and adds to another one.
entry sum_in_loop [n][m] (xs: [n]f64) (ws: [m]f64): (f64, f64) =
  reduce (\(s, p) (t, q) ->
      let c = loop c = q for j < m do c + ws[j] * s * t
      in (s + t, p + f64.exp (f64.log (f64.exp (f64.log c)))))
    (0, 0) (map (\x -> (x, x * x)) xs)
-- The same, by a reduction that could run for several iterations.
entry sum_in_sum [n][m] (xs: [n]f64) (ws: [m]f64): (f64, f64) =
  reduce (\(s, p) (t, q) -> (s + t, p + q + f64.sum (map (\w -> w * s * t) ws))) (0, 0) (map (\x -> (x, x * x)) xs)
-- An array that is folded into where it lies.
entry fold_in_place [n][m] (xs: [n][2]f64) (ws: [m]f64): [2]f64 =
  reduce (\a b -> let c = loop c = b[1] for j < m do c + f64.exp (f64.log (a[0] * b[0])) * ws[j]
                  let x = a[0] let y = a[1]
                  let d = copy a with [0] = x + b[0] in d with [1] = y + c) [0, 0] xs
-- Inner sums that each iteration adds to a place of its own.
entry matrix_sums [n][m][k] (xs: [n]f64) (a: [m][k]f64): [m]f64 =
  reduce (map2 (+)) (replicate m 0) (map (\x -> map (\row -> f64.sum (map (\v -> f64.max v x) row)) a) xs)
-- Sums of more and more terms.
entry triangle [n] (a: [n][n]f64): [n]f64 =
  map (\i -> f64.sum (map (\v -> f64.max 0.7 v) a[:i, i])) (iota n)
-- The same, side by side for all iterations.
entry triangle_across [n] (a: [n][n]f64): [n]f64 =
  map (\i -> f64.sum (map (\v -> v * v + 0.5) a[:i, i])) (iota n)
-- Sums of columns, with what each iteration has for itself.
entry scaled_columns [n][m] (a: [m][n]f64) (ts: [n]f64): [n]f64 =
  map2 (\x t -> f64.sum (map (\v -> v * t + 0.5) x)) (transpose a) ts
-- Memory of a size that each iteration computes, the same for all.
entry sizes_inside [n][m] (ts: [n]f64) (x: [m]f64) (d: i64): [n]f64 =
  map (\t -> let k = m / d in vjp (\t -> loop y = t for j < i64.min k m do f64.sin (y * t) + x[j]) t 1) ts
-- Divisions in a branch, by what is not zero; a read that only a branch may do.
entry divides_in_branch [n][m] (ts: [n]f64) (ks: [n]i64) (x: [m]f64) (d: i64): [n]f64 =
  map2 (\t k -> let e = 100 / d
                let q = if k > 1 then (k + e) / d else k / 3
                let z = f64.i64 q
                in loop y = t for j < m do y * 0.5 + z * x[j]) ts ks
entry reads_in_branch [n][m] (ts: [n]f64) (ks: [n]i64) (x: [m]f64): [n]f64 =
  map2 (\t k -> let b = k * 100000000000
                let q = if 0 <= b && b < m then x[b] else t
                in loop y = t for j < m do y * 0.5 + q * x[j]) ts ks
-- Each iteration reads another element of its own array; or adds to a place of its own on the diagonal.
entry own_elements [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map2 (\t i -> let a = map (* t) ts
                in loop y = t for j < m do y * 0.5 + f64.exp (f64.sin (x[j] * a[i]))) ts (iota n)
entry diagonal [n][m] (x: [n][n]f64) (ws: [m]f64): [n][n]f64 =
  vjp (\x -> f64.sum (map (\i -> loop y = 0.5 for j < m do
                 f64.sin (y * 0.3) * f64.exp (x[i, i] * ws[j])) (iota n))) x 1

-- Arrays that are folded into: the sum is used too; it is that of another element; it is overwritten, by a loop, too;
-- the old element is used by a branch.
entry fold_seen [n][m] (xs: [n][m]f64) (qs: [n]f64): ([m]f64, f64) =
  #[sequential] reduce (\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 0) for j < m do
      let s = a[j] + b[j] in (a with [j] = s, f64.exp (f64.sin (y * 0.3)) + s)
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)
entry fold_first [n][m] (xs: [n][m]f64) (qs: [n]f64): ([m]f64, f64) =
  #[sequential] reduce (\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 0) for j < m do
      (a with [j] = a[0] + b[j], f64.exp (f64.sin (y * 0.3)))
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)
entry fold_twice [n][m] (xs: [n][m]f64) (qs: [n]f64): ([m]f64, f64) =
  #[sequential] reduce (\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 1) for j < m do
      let t = a[j]
      let a = a with [0] = a[0] + y
      in (a with [j] = t + b[j], f64.exp (f64.sin (y * 0.3)))
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)
entry fold_nested [n][m] (xs: [n][m]f64) (qs: [n]f64): ([m]f64, f64) =
  #[sequential] reduce (\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 1) for j < m do
      let t = a[j]
      let a = loop a for k < i64.min 2 m do a with [k] = a[k] + q
      in (a with [j] = t + b[j], f64.exp (f64.sin (y * 0.3)))
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)
entry fold_asked [n][m] (xs: [n][m]f64) (qs: [n]f64) (zs: [m]f64): ([m]f64, f64) =
  #[sequential] reduce (\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 0) for j < m do
      let t = a[j]
      let u = if t > 1 then f64.exp (y * 0.1) * zs[j] else f64.sin y
      in (a with [j] = t + b[j], u)
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)

-- Rows that are read, or written again, once they are computed; more of them than the caches hold.
-- ==
-- entry: row_changed
-- random input { [200000]f64 [200000]i64 }
entry row_changed [n] (xs: [n]f64) (ks: [n]i64): [n][8]f64 =
  map2 (\x k ->
    let r = [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]
    in r with [k & 7] = 5) xs ks
entry row_read [n] (xs: [n]f64) (ks: [n]i64): ([n][8]f64, [n]f64) =
  unzip (map2 (\x k ->
    let r = [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]
    in (r, r[k & 7])) xs ks)
-- A part of each row is written.
-- ==
-- entry: part_of_rows
-- random input { [200000]f64 [200000][10]f64 }
entry part_of_rows [n] (xs: [n]f64) (b: [n][10]f64): [n][10]f64 =
  let c = map (map (+ 1)) b
  in c with [0:n, 0:8] = map (\x ->
    [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]) xs
-- What is checked is computed in the same iteration.
entry row_checked [n] (xs: [n]f64) (k: i64): [n][8]f64 =
  map (\x ->
    let r = [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]
    let v = r[k & 7]
    in assert (v < 1.3) r) xs

-- Places that are not chosen evenly.
entry divisor_moves [n] (xs: [n]f64): [n]f64 = map (\i -> xs[i % (n - i)]) (iota n)
entry size_moves [n] (xs: [n]f64) (s: i64): [n]f64 =
  map (\i -> let ys = take (n - i) xs in ys[(i + s * n) % n]) (iota n)
entry squares [n] (xs: [n]f64) (s: i64): [n]f64 =
  map (\i -> let k = if i + s < n then i + s else i + s - n in xs[(k * k) % n]) (iota n)

-- What is added to lies in a column.
def put [n] (a: *intrinsics.acc ([n]f64)) (i: i64) (v: f64) : *intrinsics.acc ([n]f64) = intrinsics.acc_write a i v
entry column_added_to [n][m] (b: [n][m]f64) (is: [n]i64) : [n]f64 =
  let c = map (map (+ 1)) b
  let d = copy c[:, m / 2]
  in intrinsics.hist_stream d (+) 0 (\(a: *intrinsics.acc ([n]f64)) i -> put a (i / 2) (f64.i64 i)) is

-- The branch reads what the iteration has stored before.
entry stored_and_chosen [n] (xs: [n]f64) (ks: [n]i64) : ([n]f64, [n][2]f64) =
  unzip (map2 (\x k ->
    let r = [f64.sin x, f64.exp x]
    let c = if r[k % 2] > 0.75 then xs[k % n] else x
    in (f64.exp (f64.sin (c + f64.exp (f64.cos c))) + f64.log (2 + f64.sin (c * x)), r)) xs ks)
