-- Size types: parameters, expressions, unknown and existential sizes, empty arrays.
-- ==
-- entry: parameters
-- input { [1, 2] [3, 4] } output { [4, 6] 2i64 }
-- input { [1, 2] [3] } error: .
entry parameters [n] (a: [n]i32) (b: [n]i32): ([n]i32, i64) = (map2 (+) a b, n)

-- ==
-- entry: expressions
-- input { [[1, 2], [3, 4]] } output { [1, 2, 3, 4] [0i64, 1i64, 2i64] }
entry expressions [n] [m] (a: [n][m]i32): ([n * m]i32, [n + 1]i64) = (flatten a, iota (n + 1))

-- ==
-- entry: dependent
-- input { 2i64 } output { [[0, 0], [0, 0]] }
entry dependent (n: i64): [n][n]i32 = replicate n (replicate n 0)

def evens [n] (xs: [n]i32): ?[k].[k]i32 = filter (\x -> x % 2 == 0) xs

-- ==
-- entry: existential
-- input { [1, 2, 4] } output { [2, 4] 2i64 [4, 8] }
entry existential (xs: []i32) =
  let ys = evens xs
  in (ys, length ys, map2 (+) ys ys)

-- ==
-- entry: branches
-- input { true [1, 2] } output { [1, 2] }
-- input { false [1, 2] } output { [1] }
entry branches (b: bool) (xs: []i32): []i32 = if b then xs else xs[:1]

-- ==
-- entry: out_of_scope
-- input { 3i64 } output { [0i64, 1i64, 2i64, 3i64] }
entry out_of_scope (n: i64): []i64 = let m = n + 1 in iota m

-- ==
-- entry: empty
-- input { } output { empty([0]i32) empty([0][2]f64) 0i64 }
entry empty: ([0]i32, [0][2]f64, i64) = ([], [], length ([] : [0]i32))

def phantom [n] 't (f: [n]t -> i64) (x: t): i64 = f (replicate n x)

-- ==
-- entry: from_a_function
-- input { [1, 2, 3] } output { 6i64 }
entry from_a_function [n] (xs: [n]i32): i64 = phantom (\(ys: [n]i32) -> length ys + length xs) 0

-- ==
-- entry: through_match
-- input { 0 } output { [1] }
-- input { 1 } output { [0, 0, 0] }
entry through_match (k: i32): []i32 =
  match (if k == 0 then #one else #many 3 : #one | #many i64) case #one -> [1] case #many n -> replicate n 0

-- ==
-- entry: between
-- input { 2i64 5i64 } output { [4i64, 6i64, 8i64] }
-- input { 5i64 6i64 } output { [10i64] }
entry between (a: i64) (b: i64): []i64 = map2 (+) (a..<b) (a...b - 1)

-- ==
-- entry: of_lengths
-- input { [1, 2, 3] } output { [1i64, 3i64, 5i64] }
entry of_lengths (xs: []i32): []i64 =
  let ys = filter (> 0) xs
  in map2 (\y i -> i64.i32 y + i) (ys :> [length ys]i32) (iota (length ys))

def none = []
def first (xs: *[]i64): i64 = xs[0]

-- ==
-- entry: constants
-- input { [1.0, 2.0] } output { empty([0]f64) empty([0]bool) }
entry constants (_xs: []f64): ([0]f64, [0]bool) = (copy none, copy none)

-- ==
-- entry: consumed_in_a_size
-- input { empty([0]i64) } output { 0i64 }
entry consumed_in_a_size (xs: [first (iota 10)]i64): i64 = length xs

-- ==
-- entry: closures
-- input { 2i64 } output { [1i64, 2i64, 3i64] }
entry closures (n: i64): []i64 =
  let f (k: i64) =
    let (m, _) = (k + 1, 0)
    in (replicate m 1i64, \(xs: [m]i64) -> map2 (+) xs (iota m))
  let (xs, add) = f n
  in add xs

-- ==
-- entry: sizes_of_one_function
-- input { [1, 2] [3] } output { [2, 1] [3] }
entry sizes_of_one_function (xs: []i32) (ys: []i32): ([]i32, []i32) =
  let turned zs = reverse zs
  in (turned xs, turned ys)

-- A branch's sizes are two parts of a size that only a later argument tells.
-- ==
-- entry: longer_part
-- input { [[1.0, 2.0, 4.0]] 1i64 } output { [6.0] }
-- input { [[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]] 2i64 } output { [3.0, 2.0] }
entry longer_part [n][m] (w: [n][m]f64) (i: i64): [n]f64 =
  map (\v -> let (p, q) = (v[:i], v[i:]) in f64.sum (if length p < length q then q else p)) w
