-- Literal forms: decimal, hexadecimal, binary, underscores, exponents, hexadecimal floats, characters, strings.
-- ==
-- input { 1 }
-- output { 255 5 1000000 1500.0 0.001 8.0 97u8 [104u8, 105u8] 12i64 1u8 true -128i8 3.0f32 }
entry main (one: i32) =
  ( 0xff
  , 0b101
  , 1_000_000
  , 1.5e3
  , 1e-3f64
  , 0x1.0p3f64
  , 'a' : u8
  , "hi"
  , 0xci64
  , u8.i32 one
  , true || false
  , -128i8
  , 3f32
  )
