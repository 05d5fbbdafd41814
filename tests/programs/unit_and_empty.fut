-- The empty tuple, arrays of nothing, arrays with no rows.
-- ==
-- input { 0i64 }
-- output { 0i64 empty([0]i32) empty([0][2]f64) 0 empty([2][0]i64) 1 }
entry main (n: i64) =
  let unit = ()
  let rows = replicate n [1.0, 2.0]
  let none: []i32 = []
  let f () = 1i32
  in (length (map (\_ -> unit) (iota n)), none, rows, i32.sum none, replicate 2 (iota n), f unit)
