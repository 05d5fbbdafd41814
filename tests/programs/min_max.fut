-- min, max, sum, product, minimum, maximum, abs, sgn of several types.
-- ==
-- input { [3, -1, 2] [1.5f32, -2.5f32] }
-- output { 3 -1 4 -6 -2.5f32 1.5f32 -1.0f32 -3.75f32 3 -1 2u8 1 -1 2.5f32 0.0 }
entry main (xs: []i32) (ys: []f32) =
  ( i32.maximum xs
  , i32.minimum xs
  , i32.sum xs
  , i32.product xs
  , f32.minimum ys
  , f32.maximum ys
  , f32.sum ys
  , f32.product ys
  , i32.max xs[0] xs[1]
  , i32.min xs[0] xs[1]
  , u8.min 2 200
  , i32.abs (-1)
  , i32.sgn (-9)
  , f32.abs ys[1]
  , f64.sum []
  )
