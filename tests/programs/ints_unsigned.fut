-- Arithmetic of the unsigned types.
-- ==
-- input { 250u8 10u8 }
-- output { 4u8 240u8 25u8 0u8 246u8 125u8 16u8 65535u16 4294967295u32 18446744073709551615u64 true -6i8 250i32 }
entry main (a: u8) (b: u8) =
  ( a + b
  , a - b
  , a / b
  , a % b
  , -b
  , a >> 1
  , b ** 4 + 0
  , u16.highest
  , 0u32 - 1
  , u64.highest
  , a > b
  , i8.u8 a
  , i32.u8 a
  )
