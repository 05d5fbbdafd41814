-- Loops that carry records; insertion sort in place.
type~ st = {n: i64, xs: []i32, best: (i32, i64)}
-- ==
-- input { [3, 1, 4, 1, 5] } output { [1, 1, 3, 4, 5] 5 4i64 5i64 }
entry main [n] (xs: *[n]i32) =
  let sort [n] (xs: *[n]i32) : *[n]i32 =
    loop xs for i in 1..<n do
      (loop (xs, j) = (xs, i) while j > 0 && xs[j - 1] > xs[j] do
         let t = xs[j]
         let xs[j] = xs[j - 1]
         let xs[j - 1] = t
         in (xs, j - 1)).0
  let r = loop s : {n: i64, best: (i32, i64)} = {n = 0, best = (i32.lowest, -1)} for x in xs do
    let s = s with n = s.n + 1
    in if x > s.best.0 then s with best = (x, s.n - 1) else s
  in (sort xs, r.best.0, r.best.1, r.n)
