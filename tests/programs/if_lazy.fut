-- Only the branch taken is evaluated; so are the right sides of && and ||.
-- ==
-- input { 0 }
-- output { -1 false true 7 }
-- input { 2 }
-- output { 5 true true 3 }
entry main (n: i32) =
  ( if n == 0 then -1 else 10 / n
  , n != 0 && 10 / n > 2
  , n == 0 || 10 % n == 0
  , if n < 1 then 7 else if n < 2 then 5 else 3
  )
