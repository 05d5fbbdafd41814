-- The other functions of the float modules.
-- ==
-- input { 0.5 2.0 }
-- output { 1.0 0.0 1.0 0.16666666666666666 0.3333333333333333 0.25
--          0.07797913037736932 2.0 3.0 -0.3010299956639812 3i64 0.5 2.25
--          1 0 0.25 4602678819172646912u64 64 false 0.5000000000000001 1.4142135623730951
--          3.1622776601683795 0.6487212707001282 1.3169578969248166 true }
entry main (x: f64) (y: f64) =
  ( f64.sinpi x, f64.cospi x, f64.tanpi (x * x), f64.asinpi x, f64.acospi x, f64.atanpi 1
  , f64.atan2pi x y, f64.mad x y 1, f64.fma y 1 1, f64.log10 x, f64.to_i64 3.9, f64.to_f64 x
  , (x + 1) ** y, f64.get_bit 62 (-y), f64.get_bit 63 y, f64.set_bit 52 x 1 * 0 + x * x
  , f64.to_bits x, f64.num_bits, x > y, f64.nextafter x 1, f64.exp2 x
  , f64.exp10 x, f64.expm1 x, f64.acosh y, f64.e - f64.pi + f64.epsilon < 0 )
