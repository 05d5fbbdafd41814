-- Numbers of every type, in every notation; strings and characters.
-- ==
-- entry: integers
-- input { }
-- output { 42i8 -1i16 1000000i32 -9223372036854775808i64 255u8 65535u16 4294967295u32 18446744073709551615u64 }
entry integers: (i8, i16, i32, i64, u8, u16, u32, u64) =
  (42i8, -1i16, 1_000_000, -9223372036854775808i64, 0xFFu8, 0b1111_1111_1111_1111u16, 0xffff_ffffu32, 0xffffffffffffffff)

-- ==
-- entry: decimals
-- input { }
-- output { 1.5f16 0.25f32 1337e2f64 15.5f64 1e-3f64 2f64 1000.5f64 }
entry decimals: (f16, f32, f64, f64, f64, f64, f64) =
  (1.5f16, 0.25f32, 1337e2f64, 0x1.fp3, 1e-3, 2, 1_000.5)

-- ==
-- entry: defaults
-- input { }
-- output { 3i32 3.0f64 3u8 true }
entry defaults =
  let i = 1 + 2
  let d = 1.0 + 2
  let u = 1 + 2u8
  in (i, d, u, true && !false)

-- ==
-- entry: text
-- input { }
-- output { "Café!" 65u8 233i32 10u8 }
entry text: ([]u8, u8, i32, u8) = ("Café!", 'A', 'é', ("a\n")[1])
