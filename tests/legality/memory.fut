-- Programs that find it if arrays share memory which they must not.

-- The rows of the caller's array are not the map's to change.
entry rows_of_others [n] [m] (xss: [n][m]f64): ([n][m]f64, [n][m]f64) =
  (map (\row -> copy row with [0] = 1) xss, map (map (* 2)) xss)
-- One row, many times.
entry repeated [m] (xs: [m]f64): ([3][m]f64, [m]f64) =
  let ys = map f64.sin xs
  let rows = replicate 3 ys
  let rows = rows with [1] = map (+ 1) xs
  in (rows, map (* 2) ys)
-- A copy shares the memory of its source until one of the two changes.
entry copy_read_later [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let a = map f64.sin xs
  let b = copy a
  let c = a with [0] = 5
  in (c, scan (+) 0 b)
entry copy_scattered [n] (xs: [n]f64): [n]f64 =
  let a = map f64.sin xs
  let b = copy a
  in scatter a (map (\i -> (i * 7 + 1) % n) (iota n)) b
entry copy_in_branch [n] (k: i64) (xs: [n]f64): ([n]f64, [n]f64) =
  let a = map f64.sin xs
  let b = copy a
  let c = if k > 1 then a with [0] = 5 else a
  in (c, scan (+) 0 b)
entry copy_in_loop [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let a = map f64.sin xs
  let b = copy a
  let c = loop c = a for i < n do c with [i] = c[i] * c[n - 1 - i]
  in (c, scan (+) 0 b)
-- Two variables of a loop begin as one array.
entry begin_as_one [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let a = map f64.sin xs
  in loop (b, c) = (copy a, copy a) for i < n do
    let x = b[i] let y = c[n - 1 - i] in (b with [i] = y + 1, c with [i] = x * 2)
entry begin_without_copies [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let a = scan (+) 0 xs
  in loop (b, c) = (a, a) for i < n do
    let b = copy b with [i] = c[n - 1 - i] * 2
    let c = copy c with [i] = b[n - 1 - i] * 3
    in (b, c)
-- Variables take each other's memory, or do not.
entry exchanged [n] (xs: [n]f64): ([n]f64, [n]f64) =
  loop (a: *[n]f64, b: *[n]f64) = (map f64.sin xs, map f64.cos xs) for i < n do
    let x = a[0] in (b with [i] = x, a with [i] = 2)
entry half_exchanged [n] (xs: [n]f64): ([n]f64, [n]f64) =
  loop (a: *[n]f64, b: *[n]f64) = (map f64.sin xs, map f64.cos xs) for i < n do
    if i % 2 == 0 then (b with [i] = 1, a with [i] = 2) else (a with [i] = 3, b with [i] = 4)
entry either [n] (xs: [n]f64): [n]f64 =
  loop a = map f64.sin xs for i < n do
    if i % 2 == 0 then scan (+) 0 a else a with [i] = 3
entry from_outside [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let start = map f64.cos xs
  let a = loop a = map f64.sin xs for i < n do if a[i] > 0.5 then copy start else scan (+) 0 a
  in (a, map (* 2) start)
-- Put together: twice the same, and pieces that lie elsewhere.
entry twice [n] (xs: [n]f64): []f64 = let ys = scan (+) 0 xs in ys ++ ys
entry beside [n] (xs: [n]f64): []f64 = let ys = scan (+) 0 xs in xs ++ ys ++ map f64.sin xs
entry literal [n] (xs: [n]f64): [3][n]f64 = let ys = scan (+) 0 xs in [ys, xs, ys]
-- Loops that append.
entry appended (n: i64): []i64 =
  loop xs = [1, 2] for i < n do xs ++ [i, xs[0]]
entry appended_to_itself (n: i64): []i64 =
  loop xs = [1, 2] for _i < n do xs ++ take 2 (reverse xs)
entry appended_and_read (n: i64): ([]i64, i64) =
  loop (xs, s) = ([1, 2], 0) for i < n do let ys = xs ++ [i] in (ys, s + i64.sum (scan (+) 0 xs))
entry before_the_rest (n: i64): []i64 =
  loop xs = [1, 2] for i < n do [i] ++ xs
entry nested (n: i64): []i64 =
  loop xs = [1, 2] for i < n do
    (loop ys = xs for j < i do ys ++ [j]) ++ [xs[0] + 1]
-- ==
-- entry: appended_and_read appended_to_itself nested nested_and_read
-- input { 12i64 }
-- input { 40i64 }
entry nested_and_read (n: i64): ([]i64, i64) =
  loop (xs, s) = ([1, 2], 0) for i < n do
    let zs = loop ys = xs for j < i do ys ++ [j]
    in (zs, s + i64.sum (scan (+) 0 xs))
-- Memory that is given back while somebody reads it.
entry slots [n] (xs: [n]f64): f64 =
  let a = scan (+) 0 xs
  let b = scan (*) 1 a
  let c = scan f64.max 0 (map2 (-) b xs)
  let d = scan f64.min 9 (map2 (*) a c)
  in f64.sum (scan (+) 0 (map3 (\x y z -> x * y - z) a b d))
entry held [n] (xs: [n]f64): ([n]f64, f64) =
  let a = scan (+) 0 xs
  let (b, s) = loop (b, s) = (a, 0) for i < n do
    let c = scan (*) 1 (map (+ f64.i64 i) b)
    let d = scan (+) 0 (map2 (-) c b)
    in (scan f64.max 0 d, s + f64.sum (scan (+) 0 c))
  in (b, s)
-- Short-circuiting (more in tests/test_imp_placement.py).
entry two_arrays [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  loop (a, b) = (replicate n (replicate m 1), replicate n (replicate m 2)) for i < n do
    let v = map f64.sin xs[i] in (a with [i] = v, b with [n - 1 - i] = v)
-- What an iteration makes is wanted in one place, by each of its updates; a copy of what was made there first shares it.
entry copies_in_iterations [n] (xs: [n]f64): ([n]f64, f64) =
  loop (a, s) = (copy xs, 0) for i < n do
    let b = map (\x -> f64.sin (x + xs[i])) (reverse a)
    let old = copy b
    let c = b with [i] = 3
    let newer = copy c
    let d = c with [n - 1 - i] = 4
    in (d, s + f64.sum old + f64.maximum newer)
entry copies_of_any_size [n] (xs: [n]f64): ([]f64, f64) =
  loop (a, s) = (copy xs, 0) for i < n do
    let b = filter (> -0.9) (map (\x -> f64.sin (x + xs[i])) (reverse a))
    let old = copy b
    let b[0] = 3
    let newer = copy b
    let b[length b - 1] = 4
    in (b, s + f64.sum old + f64.maximum newer)
-- A result lies where another one is wanted.
entry one_goes_there [n] (xs: [n]f64): ([n]f64, [n]f64) =
  loop (a: *[n]f64, s: [n]f64) = (copy xs, copy xs) for i < n do
    let a = scan f64.max 0 (map f64.sin a)
    let e = copy a
    in (a with [0] = f64.i64 i, e)
-- The array of a caller, who knows nothing of its being consumed.
entry written_first [n] [m] (xs: *[n][m]f64): [n][m]f64 =
  let v = map (\j -> f64.sin (f64.i64 j)) (iota m) in xs with [0] = v
-- Adjoints of variables that are exchanged, of which one cannot be updated where it lies.
entry exchanged_adjoints [n] [m] (xs: [n][m]f64) (ys: [n][m]f64) (p: [n][m]f64) (q: [n][m]f64): ([n][m]f64, [n][m]f64) =
  vjp (\(xs, ys) -> loop (a: *[n][m]f64, b: *[n][m]f64) = (map (map f64.sin) xs, copy ys) for i < n do
         let a = a with [(i * 3) % n] = copy b[n - 1] in (b, a))
      (xs, ys) (p, q)
entry exchanged_slices [n] [m] (xs: [n][m]f64) (p: [n][m]f64) (q: [n][m]f64): [n][m]f64 =
  vjp (\xs -> loop (a: *[n][m]f64, b: *[n][m]f64) = (copy xs, map (map f64.sin) xs) for i < n do
         let a = a with [:i] = xs[:i] in (b, a))
      xs (p, q)
-- Results over inputs that are dead (also rows), and over those that are not.
entry over_input [n] [m] (xs: [n][m]f64): ([n][m]f64, [n]f64) =
  let a = scan (map2 (+)) (replicate m 0) xs
  let b = map (map f64.sin) a
  in (b, map2 (\r x -> f64.maximum r + x[0]) a xs)
entry over_neighbours [n] (xs: [n]f64): [n]f64 =
  let a = scan (+) 0 xs
  in map2 (\x i -> f64.sin x + a[(i + 1) % n]) a (iota n)
entry over_rows_turned [n] [m] (xs: [n][m]f64): [n][m]f64 =
  let a = scan (map2 (+)) (replicate m 0) xs
  in map (\r -> map2 (+) r (reverse r)) a
entry over_one_input [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let a = scan (+) 0 xs
  let (b, c) = unzip (map (\x -> (f64.sin x, f64.cos x)) a)
  in (b, c)
-- What a loop begins with is read after it, or in it.
entry began_with [n] (xs: [n]f64): ([n]f64, f64) =
  let a = scan (+) 0 xs
  let b = loop b = a for i < n do scan f64.max 0 (map (\x -> f64.sin (x + f64.i64 i)) (reverse b))
  in (b, f64.maximum a)
entry began_with_inside [n] (xs: [n]f64): [n]f64 =
  let a = scan (+) 0 xs
  in loop b = a for i < n do scan f64.max 0 (map2 (\x y -> f64.sin (x + y)) (reverse b) (rotate i a))
