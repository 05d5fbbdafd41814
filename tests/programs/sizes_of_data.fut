-- Sizes computed from arrays, and from fields of their elements.
-- ==
-- entry: sums
-- input { [1i64, 2, 3] }
-- output { 6i64 [0i64, 1, 2, 3, 4, 5] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] [0i64] [1i64, 2] }
-- input { [0i64] }
-- output { 0i64 empty([0]i64) empty([0]f64) empty([0]i64) [0i64] }
def upto [n] (counts: [n]i64): [reduce (+) 0 counts]i64 = iota (reduce (+) 0 counts)
def next [n] (ks: [n]i64) (xs: [i64.sum ks]f64): [i64.sum ks]f64 = map (+ 1) xs

entry sums (ks: []i64) =
  let c = [i64.min ks[0] 1]
  let is = iota (length ks)
  in ( length (upto (map (\k -> k) ks))
     , upto ks
     , next ks (map f64.i64 (upto ks) :> [i64.sum ks]f64)
     , is[0:c[0]]
     , is[c[0]:]
     )

-- ==
-- entry: parts
-- input { [5, -1, 3, -2] } output { [-1, -2] [5, 3] 4i64 }
-- input { empty([0]i32) } output { empty([0]i32) empty([0]i32) 0i64 }
def cut [n] 'a (p: a -> bool) (as: [n]a): ?[k].([k]a, [n - k]a) =
  let (yes, no) = (filter p as, filter (\a -> !p a) as)
  let counts = [(length yes, length no)]
  let all = sized n (yes ++ no)
  in (all[0:counts[0].0], all[counts[0].0:n])

entry parts (xs: []i32) =
  let (yes, no) = cut (< 0) xs
  in (yes, no, length (yes ++ no))

-- The derivative of a function whose result's size another argument tells.
-- ==
-- entry: derivatives
-- input { [2i64, 0, 1] [2.0, 3.0, 5.0] }
-- output { [[4.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 10.0]] [8.0, 0.0, 30.0] }
def squares [n] (ks: [n]i64) (xs: [n]f64): [i64.sum ks]f64 =
  let (_, _, _, ys) = flatmap' (\(k, x) -> replicate k (x * x)) (zip ks xs)
  in sized (i64.sum ks) ys

entry derivatives [n] (ks: [n]i64) (xs: [n]f64) =
  ( tabulate n (\i -> jvp (squares ks) xs (replicate n 0 with [i] = 1))
  , vjp (squares ks) xs (map (\i -> f64.i64 (i + 1)) (iota (i64.sum ks)) with [0] = 0)
  )
