-- scatter, histograms and their corners: out-of-range indices are ignored; equal values may go to one place.
-- ==
-- entry: scattered
-- input { [0, 0, 0] [0i64, 2i64, -1i64, 3i64] [1, 2, 3, 4] } output { [1, 0, 2] }
-- input { [5, 6] empty([0]i64) empty([0]i32) } output { [5, 6] }
-- input { [5, 6] [1i64, 1i64] [9, 9] } output { [5, 9] }
entry scattered [n] [m] (dest: *[n]i32) (is: [m]i64) (vs: [m]i32): [n]i32 = scatter dest is vs

-- ==
-- entry: spread_out
-- input { [1i64, 3i64] [10, 20] } output { [-1, 10, -1, 20] }
entry spread_out [m] (is: [m]i64) (vs: [m]i32): []i32 = spread 4 (-1) is vs

-- ==
-- entry: histogram
-- input { [0i64, 1i64, 0i64, 7i64, -1i64] [1, 2, 3, 4, 5] } output { [4, 2, 0] [3, 2, -1] }
entry histogram [m] (is: [m]i64) (vs: [m]i32) = (hist (+) 0 3 is vs, hist i32.max (-1) 3 is vs)

-- ==
-- entry: onto
-- input { [10, 20] [0i64, 0i64, 2i64] [1, 2, 3] } output { [13, 20] }
entry onto [n] [m] (dest: *[n]i32) (is: [m]i64) (vs: [m]i32): [n]i32 = reduce_by_index dest (+) 0 is vs

-- ==
-- entry: two_dimensions
-- input { [[0, 0], [0, 0]] } output { [[1, 0], [0, 2]] }
entry two_dimensions (dest: *[2][2]i32): [2][2]i32 = scatter_2d dest [(0, 0), (1, 1), (2, 0)] [1, 2, 3]
