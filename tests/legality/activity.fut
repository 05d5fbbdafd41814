-- What must have a derivative: an entry for each condition.

entry operation (x: f64) : f64 = vjp (\x -> f64.sin x * x) x 1

entry iterations (x: f64) : f64 =
  vjp (\x -> let (_, _, c) = loop (a, b, c) = (x, 0, 0) for _i < 4 do (a, a, b) in c) x 1

entry folds [n] (xs: [n]f64) (ys: [n]f64) : [n]f64 =
  vjp (\xs -> let (_, b) = reduce (\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip xs ys) in b) xs 1

entry folds_forward [n] (xs: [n]f64) (ys: [n]f64) : f64 =
  jvp (\xs -> let (_, b) = reduce (\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip xs ys) in b) xs (map (+ 1) xs)

-- Elements that an iteration reads and then overwrites.
entry its_iteration [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do a with [i] = f64.sin a[i] * xs[n - 1 - i])) xs 1

-- Elements that a later iteration overwrites.
entry later_iteration [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n - 1 do a with [i] = a[i + 1] * a[i + 1])) xs 1

entry scattered [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         let v = a[i] * a[i]
                         let a = scatter a is (map (* v) xs)
                         in a with [i] = a[i] + v)) xs 1

entry branches [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         let b = if a[i] > 1 then a with [i] = a[i] * a[i] else a
                         in b with [n - 1 - i] = b[i] * 2)) xs 1

entry lost_index [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         let j = (is[i] + i64.f64 a[0]) % n
                         in a with [j] = f64.sin a[j] * xs[i])) xs 1

entry lost_branch [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         if a[0] > 0.8 then a with [i] = f64.sin a[i] else a with [n - 1 - i] = a[i] * a[i])) xs 1

entry divided [n] (xs: [n]f64) (k: i64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         if k == 0 then a with [i] = a[i] * 2 else a with [(i / k) % n] = f64.sin a[i])) xs 1

-- ==
-- entry: checked
-- input { [1.0, -2.0] }
entry checked [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (map (\x -> assert (x > 0) (2 * x)) xs)) xs 1

-- As much is overwritten as only the iteration knows.
entry lengths [n] (xs: [n]f64) (ys: [n]f64) =
  vjp (\xs -> loop zs = copy xs for i < n do
         let k = (i * 3 + 1) % n in zs with [0:k] = map (\z -> z * z * xs[i]) (take k zs))
      xs ys
