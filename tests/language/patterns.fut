-- Patterns in parameters, let, loop and case.
-- ==
-- entry: irrefutable
-- input { 1 2 }
-- output { 1 2 3 1 }
entry irrefutable (a: i32) (b: i32) =
  let (x, y) = (a, b)
  let {u, v = (w, _)} = {u = x + y, v = (x, true)}
  let _ = 5i32
  let (p: i32) = y
  in (x, p, u, w)

-- ==
-- entry: literals
-- input { 0 } output { 10 }
-- input { -1 } output { 20 }
-- input { 5 } output { 35 }
entry literals (x: i32): i32 =
  match x
  case 0 -> 10
  case -1 -> 20
  case y -> 30 + y

-- ==
-- entry: first_match_wins
-- input { 1 2 true } output { 1 }
-- input { 2 2 true } output { 2 }
-- input { 2 3 false } output { 3 }
-- input { 2 3 true } output { 4 }
entry first_match_wins (a: i32) (b: i32) (c: bool): i32 =
  match {l = (a, b), c}
  case {l = (1, _), c = _} -> 1
  case {l = (_, 2), c} -> if c then 2 else 5
  case {l = _, c = false} -> 3
  case _ -> 4

-- ==
-- entry: single_constructor
-- input { 3 } output { 4 }
entry single_constructor (x: i32): i32 =
  let #only y = (#only x : #only i32)
  in y + 1

-- ==
-- entry: characters
-- input { "ab" } output { [1, 0] }
entry characters [n] (s: [n]u8): [n]i32 = map (\c -> match c case 'a' -> 1 case _ -> 0) s
