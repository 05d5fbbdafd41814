-- let: patterns, sizes, local functions, shadowing.
-- ==
-- entry: sizes
-- input { [1, 2, 3] } output { 3i64 [1, 2, 3] }
entry sizes (xs: []i32): (i64, []i32) =
  let [n] (ys: [n]i32) = xs
  in (n, ys)

-- ==
-- entry: functions
-- input { 3 } output { 5 6 [3, 3] }
entry functions (x: i32) =
  let add y = x + y
  let double 'a (f: a -> a) (z: a): a = f (f z)
  let fill [n] 't (v: t) (_: [n]i32): [n]t = replicate n v
  in (add 2, double (+ 1) 4, fill x [0, 0])

-- ==
-- entry: shadowing
-- input { 1 } output { 4 }
entry shadowing (x: i32): i32 =
  let x = x + 1
  let f y = x + y -- the x above
  let x = 2
  in f x

-- ==
-- entry: without_in
-- input { 2 } output { 12 }
entry without_in (x: i32): i32 =
  let a = x
  let b = a * 5
  in a + b
