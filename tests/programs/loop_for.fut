-- For loops: by count, over an array, with tuples, without initial values, of another integer type, nested.
-- ==
-- input { 5 [1, 2, 3] }
-- output { 10 120 6 [3, 2, 1] 5 8 45 }
-- input { 0 empty([0]i32) }
-- output { 0 1 0 empty([0]i32) 0 1 0 }
entry main (n: i32) (xs: []i32) =
  let acc = 0
  let (a, b) = loop (a, b) = (0, 1) for _i < n do (b, a + b)
  in ( loop s = 0 for i < n do s + i
     , loop p = 1 for i < n do p * (i + 1)
     , loop acc for x in xs do acc + x
     , loop ys = copy xs for i < length xs do ys with [i] = xs[length xs - 1 - i]
     , a
     , b
     , loop s = 0 for i < n do loop s for j < 3 do s + i + j * (i32.bool (i < 5)) + i32.bool (i > 9) - (if j > 5 then 1 else 0)
     )
