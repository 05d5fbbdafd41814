-- Indexing and slicing, with every default, and what is out of bounds.
-- ==
-- entry: at
-- input { [[1, 2, 3], [4, 5, 6]] 1i64 2i64 } output { 6 [4, 5, 6] 6 }
-- input { [[1, 2, 3], [4, 5, 6]] 2i64 0i64 } error: out of bounds
-- input { [[1, 2, 3], [4, 5, 6]] 0i64 -1i64 } error: out of bounds
entry at [n] [m] (a: [n][m]i32) (i: i64) (j: i64) = (a[i, j], a[i], a[i][j])

-- ==
-- entry: any_integer
-- input { [10, 20] 1u8 1i16 } output { 20 20 }
entry any_integer (a: []i32) (i: u8) (j: i16) = (a[i], a[j])

-- ==
-- entry: slices
-- input { [0, 1, 2, 3, 4, 5] }
-- output { [1, 2] [0, 1] [4, 5] [0, 2, 4] [5, 3, 1] [5, 4, 3, 2, 1, 0] [4, 3] empty([0]i32) }
entry slices (a: [6]i32) =
  (a[1:3], a[:2], a[4:], a[::2], a[::-2], a[::-1], a[4:2:-1], a[3:3])

-- ==
-- entry: of_matrices
-- input { [[1, 2, 3], [4, 5, 6]] }
-- output { [2, 5] [[3, 2], [6, 5]] [4, 5] }
entry of_matrices (a: [2][3]i32) = (a[:, 1], a[:, 2:0:-1], a[1, :2])

-- ==
-- entry: slice
-- input { [1, 2, 3] 1i64 3i64 } output { [2, 3] }
-- input { [1, 2, 3] 3i64 3i64 } output { empty([0]i32) }
-- input { [1, 2, 3] 2i64 1i64 } error: out of bounds
-- input { [1, 2, 3] 0i64 4i64 } error: out of bounds
-- input { [1, 2, 3] -1i64 2i64 } error: out of bounds
entry slice (a: []i32) (i: i64) (j: i64) = a[i:j]

-- ==
-- entry: strided
-- input { [1, 2, 3, 4] 2i64 } output { [1, 3] }
-- input { [1, 2, 3, 4] 0i64 } error: .
entry strided (a: []i32) (s: i64) = a[0:4:s]
