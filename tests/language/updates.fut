-- In-place updates of arrays, updates of records, and the sugar for both.
-- ==
-- entry: element
-- input { [1, 2, 3] 1i64 9 } output { [1, 9, 3] }
-- input { [1, 2, 3] 3i64 9 } error: out of bounds
entry element (a: *[]i32) (i: i64) (x: i32): *[]i32 = a with [i] = x

-- ==
-- entry: slices
-- input { [[1, 2], [3, 4]] } output { [[9, 8], [3, 7]] }
entry slices (a: *[2][2]i32): *[2][2]i32 =
  let a[0] = [9, 8]
  let a[1:, 1] = [7]
  in a

-- ==
-- entry: record
-- input { 1 2 } output { 1 5 7 }
entry record (a: i32) (b: i32) =
  let r = {a, b, c = {d = b}}
  let r' = r with b = 5
  let r'' = r' with c.d = 7
  in (r''.a, r''.b, r''.c.d)

-- ==
-- entry: record_sugar
-- input { 1 } output { 10 20 [1, 30] }
entry record_sugar (x: i32) =
  let r = {a = x, b = {c = x}, v = [x, x]}
  let r.a = 10
  let r.b.c = 20
  let r = r with v = (copy r.v with [1] = 30)
  in (r.a, r.b.c, r.v)

-- ==
-- entry: tuple_field
-- input { 1 2 } output { 1 9 }
entry tuple_field (a: i32) (b: i32): (i32, i32) = (a, b) with 1 = 9

-- ==
-- entry: copied
-- input { [1, 2] } output { [1, 2] [0, 2] }
entry copied (a: []i32) = let b = copy a with [0] = 0 in (a, b)
