-- While loops with scalar, tuple and array state.
-- ==
-- input { 27 }
-- output { 111 9 [0, 1, 2, 3, 4] }
-- input { 1 }
-- output { 0 1 [0, 1, 2, 3, 4] }
entry main (n: i32) =
  let (steps, _) = loop (c, x) = (0i32, n) while x != 1 do
    (c + 1, if x % 2 == 0 then x / 2 else 3 * x + 1)
  let (root, _) = loop (r, left) = (0i32, n * 3) while left > 0 do
    (r + 1, left - (2 * r + 1))
  let (ys, _) = loop (ys, i) = (replicate 5 0i32, 0i64) while i < 5 do
    (ys with [i] = i32.i64 i, i + 1)
  in (steps, if n == 1 then 1 else root, ys)
