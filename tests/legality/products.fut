-- What is no product of matrices: an entry for each condition.

entry own_vector [n][m][k] (a: [k][m]f64) (xs: [n][m]f64) (ys: [n][m]f64) : ([n][k]f64, [n]f64) =
  unzip (map2 (\x y -> (map (\r -> f64.sum (map2 (*) r x)) a, f64.sum (map2 (*) x y))) xs ys)

entry irregular [n][m][k] (a: [k][m]f64) (is: [n]i64) : ([n][k]f64, [n]f64) =
  unzip (map (\i -> let t = map f64.i64 (iota (i64.abs i % 5))
                    let z = map (\j -> f64.sum t * f64.i64 j) (iota m)
                    in (map (\r -> f64.sum (map2 (*) r z)) a, f64.sum (map f64.exp t))) is)

entry seen [n][m][k] (a: [k][m]f64) (xs: [n][m]f64) : ([n][k]f64, [n][k]f64) =
  unzip (map (\x -> unzip (map (\r -> let p = map2 (*) r x in (f64.sum p, f64.maximum p)) a)) xs)

entry from_one [n][m][k] (a: [k][m]f64) (xs: [n][m]f64) : [n][k]f64 =
  map (\x -> map (\r -> reduce (+) 1 (map2 (*) r x)) a) xs

entry not_the_row [n][m][k] (a: [k][m]f64) (b: [m]f64) (xs: [n][m]f64) : [n][k]f64 =
  map (\x -> map (\_ -> f64.sum (map2 (*) x b)) a) xs

entry overwritten [n][m][k] (x: [n][m]f64) (b: [k][m]f64) : ([n][k]f64, [n]f64) =
  unzip (map (\r -> let t = map (* 2) r
                    let q = f64.sum t
                    let t[0] = 7
                    in (map (\c -> f64.sum (map2 (*) t c)) b, q)) x)

entry scaled [n][k][q] (x: [n][k]f64) (b: [k][q]f64) (c: [q]f64) : [n][q]f64 =
  map (\r -> reduce (map2 (+)) c (map2 (\w row -> map (w *) row) r b)) x

entry scaled_seen [n][k][q] (x: [n][k]f64) (b: [k][q]f64) : ([n][q]f64, [n][k]f64) =
  unzip (map (\r -> let s = map2 (\w row -> map (w *) row) r b
                    in (reduce (map2 (+)) (replicate q 0) s, map f64.maximum s)) x)

def mm [n][m][k] (a: [n][m]f64) (b: [m][k]f64) : [n][k]f64 =
  map (\r -> map (\c -> f64.sum (map2 (*) r c)) (transpose b)) a

-- An array of products made in the iterations of a loop.
entry in_iterations [n][m] (xs: *[n][m][m]f64) (w: [m][m]f64) : ([m][m]f64, [n][m][m]f64) =
  let zs = map (\x -> mm x w) xs
  let xs[0] = map (map (+ 1)) w
  in (loop a = w for i < n do map2 (map2 (+)) a zs[i], xs)

-- ==
-- entry: in_iterations_failing
-- input { [[[1.0]], [[2.0]]] [[1.0]] [0i64, 9i64] }
entry in_iterations_failing [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) (js: [n]i64) : [m][m]f64 =
  let zs = map2 (\x j -> map (map (* w[j, 0])) (mm x w)) xs js
  in loop a = w for i < n do assert (i < 0) (map2 (map2 (+)) a zs[i])

entry in_iterations_reversed [n][m] (xs: [n][m][m]f64) (w: [m][m]f64) : [m][m]f64 =
  let zs = map (\x -> mm x w) xs
  in loop a = w for i < n do map2 (\r s -> map2 (\x y -> f64.sin (x + y)) r s) a zs[n - 1 - i]

-- A layer's products in both sweeps of a loop.
entry layers [n][m] (ws: [n][m][m]f64) (x: [m][m]f64) (w: [m][m]f64) : ([n][m][m]f64, [m][m]f64) =
  vjp (\(ws, x) -> f64.sum (map f64.sum (loop x = x for i < n do map (map f64.tanh) (mm (mm x w) ws[i])))) (ws, x) 1

entry saved [m] (x: [m][m]f64) (w: [m][m]f64) (k: i64) : [m][m]f64 =
  vjp (\w -> f64.sum (map f64.sum (loop x = x for _i < i64.min k 5 do map (map f64.tanh) (mm x w)))) w 1

entry changing [m] (x: [m][m]f64) (w: [m][m]f64) : [m][m]f64 =
  vjp (\w -> let (x, _) = loop (x, w) = (x, w) for _i < 3 do (map (map f64.tanh) (mm x w), map (map (* 2)) w)
             in f64.sum (map f64.sum x)) w 1

-- What is added to an array of adjoints goes to one place.
entry largest [n] (xs: [n]f64) (y: f64) (ys: [n]f64) =
  vjp (\xs -> let zs = map f64.sin xs in (reduce f64.max f64.lowest zs, zs)) xs (y, ys)
