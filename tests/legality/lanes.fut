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
-- Memory of a size that each iteration computes, the same for all.
entry sizes_inside [n][m] (ts: [n]f64) (x: [m]f64) (d: i64): [n]f64 =
  map (\t -> let k = m / d in vjp (\t -> loop y = t for j < i64.min k m do f64.sin (y * t) + x[j]) t 1) ts

-- Rows that are read, or written again, once they are computed.
entry row_changed [n] (xs: [n]f64) (ks: [n]i64): [n][8]f64 =
  map2 (\x k ->
    let r = [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]
    in r with [k & 7] = 5) xs ks
entry row_read [n] (xs: [n]f64) (ks: [n]i64): ([n][8]f64, [n]f64) =
  unzip (map2 (\x k ->
    let r = [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (x * 2), x * 3]
    in (r, r[k & 7])) xs ks)
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
