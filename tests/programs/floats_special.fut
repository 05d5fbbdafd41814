-- Special values, constants and bits of the float modules.
-- ==
-- input { 0.0f32 }
-- output { true true false f32.inf -f32.inf 3.1415927f32 2.7182817f32 1065353216u32 1.0f32 -2.0f32 7.0f32 2.5f32 -1.0f32 12.0f32 f32.inf 0.75f32 2.0f32 32 1.5f32 }
entry main (zero: f32) =
  ( f32.isnan (zero / zero)
  , f32.isinf (1 / zero)
  , f32.nan == f32.nan
  , f32.inf
  , f32.lowest
  , f32.pi
  , f32.e
  , f32.to_bits 1
  , f32.from_bits 1065353216
  , f32.copysign 2 (-1)
  , f32.fma 2 3 1
  , f32.lerp 2 3 0.5
  , f32.sgn (-3)
  , f32.ldexp 3 2
  , f32.maximum [1, f32.inf]
  , f32.from_fraction 3 4
  , f32.round 2.5
  , f32.num_bits
  , f32.abs (-1.5)
  )
