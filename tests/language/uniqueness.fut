-- Consumption: unique parameters and results, and what updates may not be seen through.
def bump [n] (a: *[n]i32): *[n]i32 = a with [0] = a[0] + 1

-- ==
-- entry: chain
-- input { [1, 2] } output { [3, 2] }
entry chain (a: *[]i32): []i32 = bump (bump a)

-- ==
-- entry: argument_kept
-- input { [1, 2] } output { [1, 2] [2, 2] }
entry argument_kept (a: []i32) = let b = bump (copy a) in (a, b)

-- ==
-- entry: both_of_a_pair
-- input { [1, 2] [3, 4] } output { [9, 2] [3, 8] }
entry both_of_a_pair (a: *[]i32) (b: *[]i32) =
  let (x, y) = (a with [0] = 9, b with [1] = 8)
  in (x, y)

-- ==
-- entry: in_a_loop
-- input { [1, 2, 3] } output { [1, 3, 6] }
entry in_a_loop [n] (a: *[n]i32): [n]i32 = loop a for i in 1..<n do a with [i] = a[i] + a[i - 1]

-- ==
-- entry: in_branches
-- input { true [1, 2] } output { [5, 2] }
-- input { false [1, 2] } output { [1, 5] }
entry in_branches (c: bool) (a: *[]i32): []i32 = if c then a with [0] = 5 else a with [1] = 5

-- ==
-- entry: rows
-- input { [[1, 2], [3, 4]] } output { [[0, 2], [0, 4]] }
entry rows [n] [m] (a: [n][m]i32): [n][m]i32 = map (\r -> copy r with [0] = 0) a
