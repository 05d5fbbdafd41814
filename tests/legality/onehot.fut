-- Sums of what is zero but at few places, and sums that are not: `rewrite/rules/hot.py`.

-- Functions without tangents are looked at where they have a sum that compares indices.
def first [n] (xs: [n]f64) = f64.sum (map2 (\x j -> if j == 1 then x else 0) xs (iota n))
def ks (n: i64): []i64 = [-1, 0, 1, n - 1, n, n + 5, i64.highest, i64.lowest]
def hot n (i: i64): [n]f64 = tabulate n (\j -> if i == j then 1.0 else 0.0)
def grad [n] (f: [n]f64 -> f64) (xs: [n]f64): [n]f64 = tabulate n (\i -> jvp f xs (hot n i))
entry products [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> x * f64.bool (j == k)) xs (iota n))) (ks n)
entry places [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if j == k then x else 0) xs (iota n))) (ks n)
entry shifted [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if j + 3 == k then x else 0) xs (iota n))) (ks n)
entry more [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if j == k || j > 3 then x else 0) xs (iota n))) (ks n)
entry butone [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if j != k then x else 0) xs (iota n))) (ks n)
entry other [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if j == k then 0 else x) xs (iota n))) (ks n)
entry product [n] (xs: [n]f64) = map (\k -> f64.product (map2 (\x j -> if j == k then x else 0) xs (iota n))) (ks n)
entry scanned [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (*) xs (scan (+) 0 (hot n k)))) (ks n)
entry carried [n] (xs: [n]f64) = map (\k -> loop s = 0.0 for j < n do s * 0.5 + (hot n k)[j] * xs[j]) (ks n)
entry permuted [n] (xs: [n]f64) = map (\k -> f64.sum (map (\j -> if (j * 3 + 1) % n == k then xs[j] else 0) (iota n))) (ks n)
entry doubled [n] (xs: [n]f64) = map (\k -> f64.sum (map (\j -> if j * 2 == k then xs[j] else 0) (iota n))) (ks n)
entry backwards [n] (xs: [n]f64) = map (\k -> f64.sum (map (\j -> if n - 1 - j == k then xs[j] else 0) (iota n))) (ks n)
entry two [n] (xs: [n]f64) = map (\k -> map (\l -> f64.sum (map2 (\x j -> if j == k then x else if j == l then x else 0) xs (iota n))) (ks n)) (ks n)
entry twoadd [n] (xs: [n]f64) = map (\k -> map (\l -> f64.sum (map2 (\x j -> (if j == k then x else 0) + (if j == l then 2*x else 0)) xs (iota n))) (ks n)) (ks n)
entry startsat [n] (xs: [n]f64) =
  (map (\k -> loop s = 5.0 for j < n do s + (if j == k then xs[j] else 0)) (ks n), first xs)
entry reads [n] (xs: [n]f64) =
  (map (\k -> loop (s, t) = (0.0, 0.0) for j < n do (s + (if j == k then xs[j] else 0), t + s)) (ks n) |> unzip, first xs)
entry iterations [n] (xs: [n]f64) =
  (map (\k -> loop s = 3.0 for j < n do if j == k then s * xs[j] else s) (ks n), first xs)
entry iterations2 [n] (xs: [n]f64) =
  (map (\k -> loop (s, t) = (3.0, 1.0) for j < n do if j == k then (s * xs[j], s + t) else (s, t)) (ks n) |> unzip, first xs)
entry swap_in_iterations [n] (xs: [n]f64) =
  (map (\k -> loop (s, t) = (3.0, 1.0) for j < n do if j == k then (s * xs[j], s + t) else (t, s)) (ks n) |> unzip, first xs)
entry small [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x j -> if i32.i64 j == i32.i64 k then x else 0) xs (iota n))) (ks n)
entry scat [n] (xs: [n]f64) = map (\k -> f64.sum (map2 (\x h -> if h > 0 then x*h else h) xs (scatter (replicate n 0.0) [k] [2.0]))) (ks n)
entry scatk [n] (xs: [n]f64) = map (\k -> f64.sum (scatter (replicate n 0.0) [k] [2.0])) (ks n)
entry scat2 [n] (xs: [n]f64) = map (\k -> f64.sum (scatter (copy xs) [k, k+1] [2.0, 3.0])) (ks n)
entry upd [n] (xs: [n]f64) = tabulate n (\k -> f64.sum ((copy xs) with [k] = 0.0))
entry upd2 [n] (xs: [n]f64) = tabulate n (\k -> f64.sum ((replicate n 0.0 with [k] = xs[k]) with [n-1-k] = 2.0))
entry updsame [n] (xs: [n]f64) = tabulate n (\k -> f64.sum ((replicate n 0.0 with [k] = xs[k]) with [k] = 2.0))
entry cat [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (map2 (\x h -> if h == 0 then h else x) xs (sized n (replicate k 0.0 ++ [1.0] ++ replicate (n-k-1) 0.0))))
entry cat1 [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (replicate k 1.0 ++ [xs[k]] ++ replicate (n-k-1) 0.0))
entry cat2 [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (replicate k 0.0 ++ [xs[k], 2.0] ++ replicate (n-k-1) 0.0))
entry cat3 [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (replicate k 0.0 ++ [xs[k]] ++ replicate (n-k-1) 1.0))
entry catj [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (replicate k 0.0 ++ [xs[k]] ++ [5.0] ++ replicate (n-k-1) 0.0))
entry hist [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> f64.sum (reduce_by_index (replicate n 0.0) (+) 0 (map (\i -> i - 1) is) (map2 (\x j -> if j == k then x else 0) xs (iota n))))
entry hist2 [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> reduce_by_index (replicate n 0.0) (+) 0 (map (\i -> i - 1) is) (map2 (\x j -> if j == k || j == k+1 then x else 0) xs (iota n)))
entry gather [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> f64.sum (map2 (\i x -> if i - 1 == k then x else 0) is xs))
entry gatherk [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> f64.sum (map2 (\i x -> if i == k then x * f64.i64 k + xs[k] else 0) is xs))
entry gather2 [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> let y = xs[k] * 2 in f64.sum (map2 (\i x -> if i == k then x * y else 0) is xs))
entry gather3 [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> f64.sum (map2 (\i x -> if i == k then x else if i == k + 1 then 2*x else 0) is xs))
entry gather4 [n] (is: [n]i64) (xs: [n]f64) = tabulate (2*n) (\k -> f64.sum (map2 (\i x -> if i == k then x else 0) is xs))
entry gather5 [n] (is: [n]i64) (xs: [n]f64) =
  (tabulate n (\k -> loop s = 0.0 for j < n do s + (if is[j] == k then xs[j] else 0)), first xs)
entry gradgather [n] (is: [n]i64) (xs: [n]f64) = grad (\xs -> f64.sum (map (\i -> xs[i] * xs[(i*2) % n]) is)) xs
entry gradfail [n] (is: [n]i64) (xs: [n]f64) = grad (\xs -> f64.sum (map (\i -> xs[i+1] * 2) is)) xs
entry gradperm [n] (xs: [n]f64) = grad (\xs -> f64.sum (map2 (\x i -> x * f64.i64 i) (reverse xs) (iota n))) xs
entry gradscan [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\x -> x * x) (scan (+) 0 xs))) xs
entry gradprod [n] (xs: [n]f64) = grad f64.product xs
entry gradmax [n] (xs: [n]f64) = grad f64.maximum xs
entry gradcarry [n] (xs: [n]f64) = grad (\xs -> loop s = 0.5 for x in xs do f64.sin (s * x) + x) xs
entry gradmean [n] (xs: [n]f64) = grad (\xs -> let m = f64.sum xs / f64.i64 n in f64.sum (map (\x -> (x-m)**2) xs)) xs
entry gradpairs [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\x -> f64.sum (map (\y -> f64.exp (x - y)) xs)) xs)) xs
entry gradbranch [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\x -> if x > 0 then x * x else f64.sin x) xs)) xs
entry gradwhile [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\x -> (loop y = x while f64.abs y > 0.1 && f64.abs y < 1e9 do y * 0.5)) xs)) xs
entry gradloopin [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\x -> loop y = x for _k < 3 do y * x + 1) xs)) xs
entry gradupdate [n] (xs: [n]f64) = grad (\xs -> f64.sum (loop ys = copy xs for i < n do ys with [i] = ys[i] * xs[(i * 5) % n])) xs
entry hess [n] (xs: [n]f64) = tabulate n (\i -> jvp (\xs -> vjp (\xs -> f64.sum (map (\x -> x**3) xs)) xs 1.0) xs (hot n i))
entry hess2 [n] (xs: [n]f64) = tabulate n (\i -> jvp (\ys -> jvp (\xs -> f64.sum (map (\x -> x**3) xs)) ys (hot n i)) xs (hot n i))
entry hess3 [n] (xs: [n]f64) = tabulate n (\i -> tabulate n (\l -> jvp (\ys -> jvp (\xs -> f64.sum (map (\x -> x**3) xs)) ys (hot n l)) xs (hot n i)))
entry vjpofgrad [n] (xs: [n]f64) = vjp (grad (\xs -> f64.sum (map (\x -> x**3) xs))) xs (map f64.cos xs)
entry halves [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\i -> xs[i] * xs[n-1-i]) (iota (n / 2)))) xs
entry wrapband [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\i -> xs[i] * xs[(i + 1) % n]) (iota n))) xs
entry twod [n] (xs: [n]f64) = map (\k -> f64.sum (map (\i -> f64.sum (map (\j -> if i == k && j == k + 1 then xs[j] else 0) (iota n))) (iota n))) (ks n)
entry jac [n] (xs: [n]f64) = tabulate n (\i -> jvp (\xs -> map2 (*) xs (rotate 1 xs)) xs (hot n i))
entry colsums [n] (xs: [n]f64) = tabulate n (\i -> f64.sum (jvp (\xs -> map2 (*) xs (rotate 1 xs)) xs (hot n i)))
entry stencil [n] (xs: [n]f64) = grad (\xs -> f64.sum (map (\i -> let l = xs[i64.max 0 (i-1)] let r = xs[i64.min (n-1) (i+1)] in (l - 2*xs[i] + r)**2) (iota n))) xs
entry hand [n] (xs: [n]f64) = tabulate n (\i -> (reduce (\(a, da) (b, db) -> (a + b, da + db)) (0, 0) (zip xs (hot n i))).1)
entry handdot [n] (xs: [n]f64) = tabulate n (\i -> f64.sum (map3 (\x dx y -> dx * y) xs (hot n i) (map (+1) xs)))

-- Rows, columns and directions made otherwise.
def f [n] (xs: [n]f64) = f64.sum (map (\x -> f64.exp (f64.sin x)) xs)
entry bools [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (tabulate n (\j -> f64.bool (i == j))))
entry updates [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (replicate n 0.0 with [i] = 1.0))
entry copies [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (copy (map (\_ -> 0.0) xs) with [i] = 1.0))
entry scatters [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (scatter (replicate n 0.0) [i] [1.0]))
entry pieces [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (sized n (replicate i 0.0 ++ [1.0] ++ replicate (n-i-1) 0.0)))
entry zipped [n] (xs: [n]f64) = tabulate n (\i -> jvp f xs (map2 (\j z -> if j == i then 1.0 else z) (iota n) (replicate n 0.0)))
def eye n: [n][n]f64 = tabulate_2d n n (\i j -> f64.bool (i == j))
entry rows [n] (xs: [n]f64) = map (jvp f xs) (eye n)
entry all [n] (xs: [n]f64) = jmp f xs (eye n)
entry picked [n] (xs: [n]f64) = let I = eye n in tabulate n (\i -> jvp f xs I[i])
entry both [n] (xs: [n]f64) = unzip (tabulate n (\i -> jvp2 f xs (hot n i)))
entry scattered [n] (xs: [n]f64) = jmp f xs (tabulate n (\i -> scatter (replicate n 0.0) [i] [1.0]))
entry loops [n] (xs: [n]f64) = jmp (\xs -> loop s = 0.0 for j < n do s + xs[j] * xs[j]) xs (eye n)
entry filled [n] (xs: [n]f64) = loop g = replicate n 0.0 for i < n do g with [i] = jvp f xs (hot n i)
entry diagonal [n] (xs: [n]f64) = tabulate n (\i -> (jvp (map f64.exp) xs (hot n i))[i])
entry columns [m][n] (a: [m][n]f64) (xs: [n]f64) = tabulate n (\i -> jvp (\x -> map (\r -> f64.sum (map2 (*) r x)) a) xs (hot n i))

-- Programs in which one condition does not hold.
entry infinite [n] (xs: [n]f64) =
  let ys = map (\x -> if x > 0.0 then f64.inf else x) xs
  in tabulate n (\k -> f64.sum (map2 (\y j -> y * f64.bool (j == k)) ys (iota n)))
entry overwritten [n] (xs: [n]f64) =
  tabulate n (\k -> let ys = scan (+) 0.0 xs
                    let ts = map2 (\y j -> if j == k then y else 0) ys (iota n)
                    let zs = ys with [k] = 100.0
                    in f64.sum ts + zs[0])
entry beyond [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (replicate n 0.0 with [k + 1] = xs[k]))
entry asserted [n] (xs: [n]f64) = tabulate n (\k -> f64.sum (tabulate n (\j -> assert (j < 6) (if j == k then xs[j] else 0))))
entry fails [n] (xs: [n]f64) = (i64.sum (tabulate n (\j -> (10 / (j - 1)) * i64.bool (j == 0))), xs)
entry grows [n] (xs: [n]f64) =
  tabulate n (\k -> f64.sum (tabulate n (\j -> (loop s = 0.0 for l < 3 do s * 0.5 + xs[j] * f64.i64 (l + 1)) + (if j == k then 1 else 0))))
entry inner_index [n] (xs: [n]f64) =
  tabulate n (\k -> f64.sum (tabulate n (\j -> (scan (+) 0 (map (\l -> if l == k then xs[j] else 0) (iota 3)))[2])))
entry carried_term [n] (xs: [n]f64) =
  (tabulate n (\k -> (loop (s, t) = (0.0, 1.0) for j < n do (s + (if j == k then t else 0), t * xs[j])).0), first xs)
entry starts_bins [n] (is: [n]i64) (xs: [n]f64) =
  (tabulate n (\k -> loop s = 5.0 for j < n do s + (if is[j] == k then xs[j] else 0)), first xs)
entry full_bins [n] (is: [n]i64) (xs: [n]f64) =
  tabulate n (\k -> reduce_by_index (replicate n 2.0) (+) 0 is (map2 (\x j -> if j == k then x else 0) xs (iota n)))
entry own_bin [n] (is: [n]i64) (xs: [n]f64) = tabulate n (\k -> f64.sum (map2 (\i x -> if (i ^ k) == k then x else 0) is xs))
entry bins_anew [n] (is: [n]i64) (xs: [n]f64) =
  tabulate n (\k -> let h = reduce_by_index (replicate n 0.0) (+) 0 is xs
                    let g = h with [k] = 1.0
                    in f64.sum (map2 (\x j -> if j == k then x else 0) xs (iota n)) + f64.sum g)
entry bins_differ [n] (is: [n]i64) (xs: [n]f64) =
  tabulate n (\k -> let h = reduce_by_index (replicate n 0.0) (+) 0 is (map (* xs[k]) xs)
                    in f64.sum (map2 (\x j -> if j == k then x * h[j] else 0) xs (iota n)))

-- Beside a sum that is one-hot: without any, or a tangent, a function is not looked at (`rewrite/may_vanish.py`).
entry infinite_beside [n] (xs: [n]f64) = (infinite xs, first xs)
entry grows_beside [n] (xs: [n]f64) = (grows xs, first xs)
entry cat3_beside [n] (xs: [n]f64) = (cat3 xs, first xs)

-- Maps without iterations, and bins out of range: what their terms read is there, and fails, in iterations alone.
entry bins_none [n][m] (xs: [n]i64) (is: [m]i64) (ys: [m]i64) =
  tabulate n (\k -> i64.sum (map2 (\i y -> i64.bool (i == k) * (y + xs[0])) is ys))
entry bins_fail [n][m] (_xs: [n]f64) (is: [m]i64) (ys: [m]f64) =
  tabulate n (\k -> i64.sum (map2 (\i y -> if i == k then 6 / i64.f64 (y * 1e-9) else 0) is ys))
entry bins_next [n] (is: [n]i64) (xs: [n]f64) =
  tabulate n (\k -> f64.sum (map2 (\i x -> if i * 1000003 - 5 == k then x * (if k + 1 < n then xs[k + 1] else 2) else 0) is xs))
