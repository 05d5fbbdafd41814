-- In-place updates: elements, rows, slices, pairs; `let x[i] =`; uniqueness.
-- ==
-- input { [1, 2, 3, 4] }
-- output { [9, 2, 3, 4] [1, 7, 7, 4] [[0, 0], [5, 6]] [1, 2, 3, 8] [5] [true] [4, 1, 2, 3] }
def set (xs: *[]i32) (i: i64) (v: i32): *[]i32 = xs with [i] = v

entry main [n] (xs: [n]i32) =
  let a = copy xs with [0] = 9
  let b = copy xs with [1:3] = [7, 7]
  let c = replicate 2 [0, 0] with [1] = [5, 6]
  let d = copy xs
  let d[3] = 8
  let (e, f) = unzip ([(1i32, false)] with [0] = (5, true))
  let g = loop ys = set (copy xs) 0 xs[n - 1] for i < n - 1 do ys with [i + 1] = xs[i]
  in (a, b, c, d, e, f, g)
