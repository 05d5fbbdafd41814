-- Arithmetic of the signed types: wrapping, floored and truncated division, powers, bits.
-- ==
-- input { -7 2 }
-- output { -4 1 -3 -1 49 [127i8, -128i8] 2147483647 [5i64, -8i64] 6 -8 -28 -2 1073741822 true }
entry main (a: i32) (b: i32) =
  ( a / b
  , a % b
  , a // b
  , a %% b
  , a ** b
  , [i8.highest, i8.highest + 1]
  , i32.lowest - 1
  , [i64.i32 (-a) - i64.i32 b, i64.i32 a - 1]
  , (a & 6) ^ (b | 4) & 6 + b * 0
  , a ^ 1
  , a << 2
  , a >> 2
  , a >>> 2
  , a < b && a <= b && b > a && b >= a && a != b && a == a
  )
