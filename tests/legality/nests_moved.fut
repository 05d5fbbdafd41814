-- What is overwritten between a place and another where it would be read: an entry for each condition.

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : *[n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

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
