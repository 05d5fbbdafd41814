-- The operators of every type: wrapping, rounding, division by zero, shifts, powers.
-- ==
-- entry: wrapping
-- input { 127i8 1i8 255u8 2u8 } output { -128i8 1u8 -2i8 254u8 -128i8 }
entry wrapping (a: i8) (b: i8) (c: u8) (d: u8): (i8, u8, i8, u8, i8) =
  (a + b, c + d, a * 2, c * d, -(a + b))

-- ==
-- entry: division
-- input { 7 2 } output { 3 1 3 1 }
-- input { -7 2 } output { -4 1 -3 -1 }
-- input { 7 -2 } output { -4 -1 -3 1 }
-- input { -7 -2 } output { 3 -1 3 -1 }
-- input { 1 0 } error: division by zero
-- input { -2147483648 -1 } output { -2147483648 0 -2147483648 0 }
entry division (a: i32) (b: i32) = (a / b, a % b, a // b, a %% b)

-- ==
-- entry: unsigned
-- input { 200u8 7u8 } output { 28u8 4u8 193u8 true }
entry unsigned (a: u8) (b: u8) = (a / b, a % b, a - b, a > b)

-- ==
-- entry: floats
-- input { 7.5 2.0 } output { 3.75 1.5 56.25 9.5 5.5 }
-- input { -7.5 2.0 } output { -3.75 0.5 56.25 -5.5 -9.5 }
-- input { 1.0 0.0 } output { f64.inf f64.nan 1.0 1.0 1.0 }
entry floats (a: f64) (b: f64) = (a / b, a % b, a ** b, a + b, a - b)

-- ==
-- entry: powers
-- input { 3 4 } output { 81 1 }
-- input { 2 32 } output { 0 1 }
entry powers (a: i32) (b: i32) = (a ** b, b ** 0)

-- ==
-- entry: bits
-- input { 12 10 } output { 8 14 6 48 3 -13 }
entry bits (a: i32) (b: i32) = (a & b, a | b, a ^ b, a << 2, a >> 2, !a)

-- ==
-- entry: shifts
-- input { -8 1 } output { -4 2147483644u32 -16 }
entry shifts (a: i32) (k: i32) = (a >> k, u32.i32 a >> u32.i32 k, a << k)

-- ==
-- entry: comparison
-- input { 1 2 } output { true true false true true false }
entry comparison (a: i32) (b: i32) =
  (a < b, a <= b, a > b, a != b, (a, [b]) == (1, [2]), [a, b] == [b, a])

-- ==
-- entry: not_a_number
-- input { f64.nan } output { false true false false }
entry not_a_number (x: f64) = (x == x, x != x, x < x, x >= 0)

-- ==
-- entry: lazy
-- input { [1] 0i64 } output { true false }
-- input { [1] 5i64 } output { true false }
entry lazy (a: []i32) (i: i64) = (i >= 1 || a[i] == 1, i < 1 && a[i] == 2)
