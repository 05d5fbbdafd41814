-- Attributes on expressions, loops, parameters and functions change nothing in the result.
-- ==
-- input { 10.0 }
-- output { 10240.0 1024.0 20.0 3.0 }
#[noinline]
def double (x: f64) = x * 2

#[inline]
def half (x: f64) = x / 2

entry main (x: f64) =
  ( #[stripmine(2)] loop y = x for _i < 10 do y * 2
  , vjp (\a -> #[stripmine(2)] loop y = a for _i < 10 do y * 2) x 1
  , double (half (double x))
  , #[unsafe] [1.0, 3.0][1]
  )
