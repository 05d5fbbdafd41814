-- What must hold for a map to read what an earlier one has computed: an entry for each condition.

-- The earlier results have another first element by then.
entry overwritten [n][m] (xs: [n][m]f64): [n]f64 =
  loop sums = replicate n 0 for _i < 2 do
    map2 (\sum row ->
      let es = map f64.exp row
      let first = f64.sum es
      let es[0] = first
      let twice = map (\x -> 2 * f64.exp x) row
      in sum + twice[0] + f64.sum (map2 (*) es twice)) sums xs
