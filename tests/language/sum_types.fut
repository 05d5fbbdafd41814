-- Sum types: constructors, payloads, nesting, arrays of them, equality.
type shape = #circle f64 | #rect f64 f64 | #none

def area (s: shape): f64 =
  match s
  case #circle r -> r * r * 3
  case #rect a b -> a * b
  case #none -> 0

-- ==
-- entry: areas
-- input { [0, 1, 2] 2.0 }
-- output { [12.0, 6.0, 0.0] }
entry areas [n] (kinds: [n]i32) (x: f64): [n]f64 =
  let made = map (\k -> if k == 0 then #circle x else if k == 1 then #rect x (x + 1) else #none : shape) kinds
  in map area made

type option 't = #some t | #null

def or_else 't (o: option t) (d: t): t = match o case #some x -> x case #null -> d

-- ==
-- entry: polymorphic
-- input { 5 }
-- output { 5 1.5 true }
entry polymorphic (x: i32) =
  (or_else (#some x) 0, or_else #null 1.5, or_else (#some (x > 2)) false)

-- ==
-- entry: nested
-- input { 1 } output { 11 }
-- input { 2 } output { 2 }
-- input { 3 } output { -1 }
entry nested (k: i32): i32 =
  let v: option (#left i32 | #right (i32, i32)) =
    if k == 1 then #some (#left 10) else if k == 2 then #some (#right (1, 1)) else #null
  in match v
     case #some (#left x) -> x + 1
     case #some (#right (a, b)) -> a + b
     case #null -> -1

-- ==
-- entry: equal
-- input { 1 1 } output { true }
-- input { 1 2 } output { false }
-- input { 0 0 } output { true }
entry equal (a: i32) (b: i32): bool =
  let make (x: i32): option i32 = if x == 0 then #null else #some x
  in make a == make b

-- ==
-- entry: coerced
-- input { 0i64 [1i64, 2i64] } output { [1i64, 2i64] }
-- input { 1i64 [1i64, 2i64] } error: cannot match
-- input { 2i64 [1i64, 2i64] } output { [7i64] }
entry coerced [n] (k: i64) (xs: [n]i64): []i64 =
  let v: option ([n]i64) = if k == 2 then #null else #some xs
  let m = n + k
  in match (v :> option ([m]i64)) case #some ys -> ys case #null -> [7]

-- ==
-- entry: coerced_branch
-- input { true 3i64 } output { [0i64, 1i64, 2i64] }
-- input { false 3i64 } output { [0i64] }
entry coerced_branch (b: bool) (n: i64): []i64 =
  let v = if b then #some (iota n) else (#null: option ([1]i64)) :> option ([]i64)
  in match v case #some ys -> ys case #null -> [0]
