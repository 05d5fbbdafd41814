-- opaque, and conversions by the old short names.
-- ==
-- input { 3 }
-- output { 3 [3, 3] 3.0f32 3.0 2 false }
entry main (x: i32) =
  (opaque x, opaque [x, x], r32 x, r64 x, t32 2.9, not (x > 2))
