-- Modules of numbers: conversions, limits, and functions at their special points.
-- ==
-- entry: conversions
-- input { 300 -1.9 } output { 44u8 300i64 -1 300.0 true 1 -1i8 }
entry conversions (i: i32) (x: f64) =
  (u8.i32 i, i64.i32 i, i32.f64 x, f64.i32 i, bool.i32 i, i32.bool (i > 0), i8.f64 x)

-- ==
-- entry: limits
-- input { } output { -128i8 127i8 0u16 65535u16 f32.inf -f64.inf 64i32 }
entry limits = (i8.lowest, i8.highest, u16.lowest, u16.highest, f32.highest, f64.lowest, i64.num_bits)

-- ==
-- entry: rounding
-- input { 2.5 } output { 2.0 3.0 2.0 2.0 }
-- input { -2.5 } output { -3.0 -2.0 -2.0 -2.0 }
-- input { 3.5 } output { 3.0 4.0 3.0 4.0 }
entry rounding (x: f64) = (f64.floor x, f64.ceil x, f64.trunc x, f64.round x)

-- ==
-- entry: special
-- input { 0.0 } output { 1.0 -f64.inf 0.0 1.0 true false }
-- input { -1.0 } output { 0.36787944117144233 f64.nan f64.nan 0.5403023058681398 false false }
-- input { f64.nan } output { f64.nan f64.nan f64.nan f64.nan false true }
entry special (x: f64) = (f64.exp x, f64.log x, f64.sqrt x, f64.cos x, x == 0, f64.isnan x)

-- ==
-- entry: extremes
-- input { 1.0 f64.nan } output { 1.0 1.0 }
-- input { f64.nan 2.0 } output { 2.0 2.0 }
-- input { 3.0 -2.0 } output { -2.0 3.0 }
entry extremes (x: f64) (y: f64) = (f64.min x y, f64.max x y)

-- ==
-- entry: bits
-- input { 12 } output { 2 28 2 1 0 28 }
entry bits (x: i32) = (i32.popc x, i32.clz x, i32.ctz x, i32.get_bit 2 x, i32.get_bit 0 x, i32.set_bit 4 x 1)
