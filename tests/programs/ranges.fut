-- Ranges in every form.
-- ==
-- input { 5 }
-- output { [0, 1, 2, 3, 4] [1, 2, 3, 4, 5] [5, 4, 3, 2, 1] [0, 2, 4] [1, 3, 5] [5, 3, 1] [9u8, 7u8, 5u8] }
-- input { 0 }
-- output { empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) [9u8, 7u8, 5u8] }
entry main (n: i32) =
  ( 0..<n
  , if n > 0 then 1...n else []
  , n..>0
  , 0..2..<n
  , if n > 0 then 1..3...n else []
  , if n > 0 then n..n - 2..>0 else []
  , 9u8..7u8...5u8
  )
