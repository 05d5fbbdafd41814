-- Function expressions and higher-order functions.
def minus (a: i32) (b: i32) = a - b
def compose 'a 'b 'c (f: b -> c) (g: a -> b) = \x -> f (g x)
def twice 'a (f: a -> a) = compose f f
def apply_all (fs: (i32 -> i32, i32 -> i32)) (x: i32) = (fs.0 x, fs.1 x)
def make_adder (by: i32) = {add = \x -> x + by, sub = \x -> x - by}

-- ==
-- entry: lambdas
-- input { 3 } output { 6 [4, 5] }
entry lambdas (x: i32) = ((\(a, b): i32 -> a + b) (x, x), map (\y: i32 -> x + y) [1, 2])

-- ==
-- entry: sections
-- input { 10 3 } output { 13 7 -7 [11, 12] -5 }
entry sections (x: i32) (y: i32) =
  ((+) x y, (x -) y, (`minus` x) y, map (x +) [1, 2], (2 `minus`) 7)

-- ==
-- entry: projections
-- input { [1, 2] } output { [1, 2] [2, 3] 2 [7, 8] }
entry projections (xs: [2]i32) =
  let rs = map (\x -> {a = x, b = {c = x + 1}}) xs
  in (map (.a) rs, map (.b.c) rs, (.[1]) xs, map (.[0,1]) [[[0, 7]], [[0, 8]]])

-- ==
-- entry: closures
-- input { 5 } output { 7 9 6 4 }
entry closures (x: i32) =
  let r = make_adder 1
  let (a, b) = apply_all (r.add, r.sub) x
  in (twice (+ 1) x, twice (compose (+ 1) (+ 1)) x, a, b)

-- ==
-- entry: pipes
-- input { [1, 2, 3] } output { 12 12 [3, 5, 7] }
entry pipes (xs: [3]i32) =
  (xs |> map (* 2) |> i32.sum, i32.sum <| map (* 2) <| xs, map ((* 2) >-> (+ 1)) xs)

-- ==
-- entry: partial
-- input { 2 } output { [3, 4] 6 }
entry partial (x: i32) =
  let add (a: i32) (b: i32) = a + b
  let add_x = add x
  in (map add_x [1, 2], add_x 4)
