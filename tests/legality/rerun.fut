-- What must hold for iterations to be run again from a few states.

-- The variable that the return sweep reads follows from another.
entry complete (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _, _) = #[checkpoint(2)] loop (s, a, b) = (x, 0.5, 0.25) for _i < n do
                           (s * f64.sin a, b + 1, f64.cos (b + a))
         in s) x 1
