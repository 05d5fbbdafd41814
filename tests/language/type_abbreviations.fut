-- Type abbreviations with size and type parameters; lifted ones.
type vec [n] = [n]f64
type pairs [n] 't = ([n]t, [n]t)
type int_pairs [n] = pairs [n] i32
type matrix [n] [m] 't = [n][m]t
type~ list = []i32
type^ fun = i32 -> i32

-- ==
-- entry: sized
-- input { [1.0, 2.0] }
-- output { [2.0, 4.0] [0, 1] [1, 1] }
entry sized [n] (v: vec [n]): (vec [n], int_pairs [n]) =
  (map (* 2) v, (map i32.i64 (iota n), replicate n 1))

-- ==
-- entry: two_sizes
-- input { [[1, 2, 3], [4, 5, 6]] }
-- output { [[1, 4], [2, 5], [3, 6]] }
entry two_sizes [n] [m] (x: matrix [n] [m] i32): matrix [m] [n] i32 = transpose x

def twice (f: fun): fun = \x -> f (f x)
def positive (xs: list): list = filter (> 0) xs

-- ==
-- entry: lifted
-- input { [3, -1, 4] }
-- output { [7, 8] }
entry lifted (xs: []i32): []i32 = map (twice (+ 2)) (positive xs)

-- ==
-- entry: anonymous
-- input { [1.0, 2.0, 3.0] }
-- output { 3i64 }
entry anonymous (v: vec []): i64 = length v
