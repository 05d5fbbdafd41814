-- How the grammar's ambiguities are resolved.
module m = { def y = 5i32 }
def f (xs: [1]i32) = xs[0] + 100

-- ==
-- entry: main
-- input { [7, 8] 1i64 }
-- output { 8 107 5 9 -7 }
entry main (xs: [2]i32) (i: i64) =
  let r = {y = 9i32}
  in (xs[i], f [xs[0]], m.y, r.y, (-xs[0]))

-- ==
-- entry: prefix
-- input { 3 true }
-- output { -2 false -9 2 }
entry prefix (x: i32) (b: bool) =
  -- A prefix operator binds more tightly than an infix one.
  (-x + 1, !b && b, -x * 3, 5 - x)

-- ==
-- entry: infix
-- input { }
-- output { 7 1 true 14 512 2 true 3 }
entry infix =
  -- By increasing precedence: || && comparisons, bits, shifts, + -, * / %, |>, **.
  ( 1 + 2 * 3
  , 7 - 4 - 2
  , 1 < 2 && 3 & 1 == 1 || false
  , 3 + 4 << 1
  , 2 ** 3 ** 3
  , 7 % 4 - 1
  , 1 | 2 == 3
  , 1 + 2 |> (\x -> x : i32)
  )

-- ==
-- entry: bodies
-- input { 2 }
-- output { 6 102 }
entry bodies (x: i32) =
  -- Bodies of let, if, loop and lambdas extend as far as they can.
  let a = let y = x in y + if y > 1 then 1 else 0 + 3
  let b = (\z -> z + x) 100
  in (a + 3, b)
