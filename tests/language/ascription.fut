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

-- What is coerced may have its type from what stands after it.
-- ==
-- entry: rows
-- input { [[1, 2], [3, 4]] 2i64 } output { [[1, 2], [3, 4]] [2i64, 2i64] }
-- input { [[1, 2], [3, 4]] 3i64 } error: .
-- input { empty([0][2]i32) 2i64 } output { empty([0][2]i32) empty([0]i64) }
entry rows [n][d] (xss: [n][d]i32) (m: i64): ([n][m]i32, [n]i64) =
  (map (\r -> r :> [m]i32) xss, map (\r -> let k = length r in length (r :> [k]i32)) xss)

-- A function that coerces its parameter takes any size.
def pair xs = xs :> [2]i32

-- ==
-- entry: parameters
-- input { [1, 2] } output { [2, 4] }
-- input { [1, 2, 3] } error: .
entry parameters [n] (xs: [n]i32) =
  let halves ys = ys :> [2]i32
  in map2 (+) (pair xs) (halves xs)
