-- Type ascription and size coercion.
-- ==
-- entry: ascription
-- input { [1, 2] } output { [1, 2] 3u8 }
entry ascription (xs: []i32) = (xs : []i32, 3 : u8)

-- ==
-- entry: coercion
-- input { [1, 2] 2i64 } output { [1, 2] }
-- input { [1, 2] 3i64 } error: .
entry coercion (xs: []i32) (n: i64): [n]i32 = xs :> [n]i32

-- ==
-- entry: concatenated
-- input { [1] [2, 3] 3i64 } output { [1, 2, 3] }
-- input { [1] [2, 3] 2i64 } error: .
entry concatenated (a: []i32) (b: []i32) (m: i64): [m]i32 = a ++ b :> [m]i32

-- ==
-- entry: inside
-- input { [[1, 2], [3, 4]] 2i64 } output { [[1, 2], [3, 4]] }
-- input { [[1, 2], [3, 4]] 3i64 } error: .
entry inside [n] (xss: [n][]i32) (m: i64): [n][m]i32 = xss :> [n][m]i32
