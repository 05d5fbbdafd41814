-- The other functions of the integer and bool modules, and operators taken from modules.
-- ==
-- input { 6u8 -6i16 }
-- output { 1u8 -1i16 3u8 255u8 -6i16 6i16 7i16 65529u16 true false true 2i64 8 3i32 12u8 0i16 true }
entry main (a: u8) (b: i16) =
  ( u8.sgn a
  , i16.sgn b
  , a u8./ 2
  , u8.highest
  , i16.min b 0
  , i16.abs b
  , i16.max (i16.neg b) 7
  , u16.i16 (b - 1)
  , bool.u8 a
  , true bool.== false
  , bool.i16 b && !bool.f32 0
  , i64.u8 (a u8.% 4)
  , u8.num_bits
  , u8.ctz (a << 2)
  , i16.to_i64 b |> (+ 18) |> u8.i64
  , i16.mad_hi 256 1 0
  , u64.product [2, 3] == u64.sum [1, 2, 3] && i16.clz 1 == 15 && i8.popc (-1) == 8
  )

-- A specification may name an operator without parentheses.
-- ==
-- entry: operator_spec
-- input { 3i32 }
-- output { 13i32 }
module type monoid = { type t val + : t -> t -> t val zero: t }
module sums (M: monoid) = { def double (x: M.t) = x M.+ x M.+ M.zero }
module times = sums { type t = i32 def (+) (x: i32) (y: i32) = x i32.+ y i32.+ 7 def zero = 0i32 }
entry operator_spec (x: i32) = times.double x - 7
