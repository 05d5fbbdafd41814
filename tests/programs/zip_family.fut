-- zip and unzip, two to five at a time.
-- ==
-- input { [1, 2] [3i64, 4i64] }
-- output { [1, 2] [3i64, 4i64] [1, 2] [3i64, 4i64] [1, 2] [1, 2] [3i64, 4i64] [1, 2] [3i64, 4i64] [2, 4] [14i64, 18i64] }
entry main [n] (xs: [n]i32) (ys: [n]i64) =
  let (a, b) = unzip (zip xs ys)
  let (c, d, e) = unzip3 (zip3 xs ys xs)
  let (f, g, h, i) = unzip4 (zip4 xs ys xs ys)
  let (j, k, l, m, o) = unzip5 (zip5 xs ys xs ys ys)
  in (a, b, c, d, e, f, g, h, i, map2 (+) j l, map4 (\p q r s -> p + q + r + s - i64.i32 xs[0] * 0 + p - q) k m o k
      |> map2 (\x y -> y + x * 0 + 5 - 3 + x - x) ys |> map (+ 0))
