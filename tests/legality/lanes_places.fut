-- Programs that tempt a fold and the search for the place of its result to become one fold.

-- Other elements are searched than those that are folded, of which the search's neutral place is that of none.
entry searched_elsewhere [n] (xs: [n]f64) (ys: [n]f64) : (f64, i64) =
  let m = reduce f64.min f64.inf xs
  let i = reduce i64.min n (map2 (\y j -> if y == m then j else n) ys (iota n))
  in (m, i)
-- What is folded is none of the elements, but may be equal to one.
entry exclusive [n] (xs: [n]i64) : (i64, i64) =
  let m = reduce (^) 0 xs
  let i = reduce i64.min n (map2 (\y j -> if y == m then j else n) xs (iota n))
  in (m, i)
