-- Conversions between the numeric types.
-- ==
-- input { -1.75 }
-- output { -1 -1i64 -1i8 255u8 -2.0 -1.75f32 -1.75f16 true 1.0 0 300i16 44u8 65535u16 -1i64 1i64 -1 }
entry main (x: f64) =
  ( i32.f64 x
  , i64.f64 x
  , i8.f64 x
  , u8.i8 (i8.f64 x)
  , f64.floor x
  , f32.f64 x
  , f16.f64 x
  , bool.f64 x
  , f64.bool true
  , i32.bool false
  , i16.i32 300
  , u8.i32 300
  , u16.i64 (-1)
  , i64.i32 (-1)
  , i32.to_i64 1
  , t64 x
  )

-- A signed integer becomes a wider unsigned one without its sign.
-- ==
-- entry: widened
-- input { -1i8 -1i32 }
-- output { 255u16 255u64 4294967295u64 255u8 -1i64 }
entry widened (x: i8) (y: i32) = (u16.i8 x, u64.i8 x, u64.i32 y, u8.i32 y, i64.i32 y)
