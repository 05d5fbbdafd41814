-- Sum types: constructors with and without arguments, nested patterns, arrays of them, functions over them.
-- ==
-- input { 3 }
-- output { [9.0, 0.0, 6.0] 10 20 12 [2, 1] }
-- input { 0 }
-- output { [0.0, 0.0, 0.0] 10 20 0 [2, 1] }
type shape = #circle f64 | #point | #box (f64, f64)

type option 'a = #some a | #none

def area (s: shape): f64 =
  match s
  case #circle r -> r * r
  case #point -> 0
  case #box (w, h) -> w * h

def get 'a (default: a) (o: option a): a =
  match o
  case #some x -> x
  case #none -> default

def count (o: option ([2]i32)): i64 =
  match o
  case #some xs -> i64.i32 xs[0]
  case #none -> 1

entry main (n: i32) =
  let x = f64.i32 n
  let shapes: [3]shape = [#circle x, #point, #box (x, 2)]
  let pick (i: i32): option i32 = if i > 0 then #some (i * 10) else #none
  in ( map area shapes
     , get 0 (pick 1)
     , get 20 (pick (-1))
     , loop s = 0i32 for i in [1, 2] do s + get 0 (if n > 0 then #some (i * 4) else #none)
     , [count (#some [2, 3]), count #none] |> map i32.i64
     )
