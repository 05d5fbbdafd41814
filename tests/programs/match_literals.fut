-- match on numbers, bools and tuples.
-- ==
-- input { 0 true } output { 10 1 100 }
-- input { 1 false } output { 20 0 300 }
-- input { 5 true } output { 5 0 500 }
entry main (n: i32) (b: bool) =
  ( match n case 0 -> 10 case 1 -> 20 case m -> m
  , match (n, b) case (0, true) -> 1 case _ -> 0i32
  , match (b, n) case (true, 0) -> 100 case (true, m) -> 100 * m case (false, m) -> 300 * m
  )
