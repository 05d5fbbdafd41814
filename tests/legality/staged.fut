-- What is computed again where it is added: an entry for each condition.

-- The adjoint of xs lies in the memory of xs, of which the places in the table are made.
entry table [n] (tab: [8]f64) (ys: [n]f64) : ([8]f64, [n]f64) =
  vjp (\(tab, ys) ->
         let xs = scan f64.max 0 (map (\y -> y * y) ys)
         in f64.sum (map (\x -> let k = i64.f64 x
                                in #[unsafe] tab[k] * f64.sin (f64.exp (f64.log (x + 1)))
                                   + tab[k + 1] * f64.cos (f64.exp (f64.sin x))) xs))
      (tab, ys) 1
