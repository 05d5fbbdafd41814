-- Bit functions of the integer modules.
-- ==
-- input { 12 }
-- output { 2 28 2 0 1 8 44 -13 1i64 4294967294u32 8 64 }
entry main (x: i32) =
  ( i32.popc x
  , i32.clz x
  , i32.ctz x
  , i32.get_bit 1 x
  , i32.get_bit 2 x
  , i32.set_bit 2 x 0
  , i32.set_bit 5 x 1
  , !x
  , i64.mul_hi (1 << 33) (1 << 31)
  , u32.mul_hi 4294967295 4294967295
  , u8.num_bits
  , i64.num_bits
  )
