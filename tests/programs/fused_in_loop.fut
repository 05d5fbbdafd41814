-- A loop's array made anew by a map that also sums: the sums read what the map has for its input.
-- ==
-- entry: main
-- input { [[1f32, 2f32], [3f32, 4f32], [5f32, 6f32]] [1f32, 2f32, 3f32] [0.5f32, 0.25f32, 0.125f32] 0.5f32 }
-- output { [1.8125f32, 3.53125f32, 5.265625f32] 150f32 433.09375f32 149.53125f32 }
entry main [n] [b] (xss: [n][b]f32) (m: [n]f32) (a: [n]f32) (s: f32) =
  loop (acc, t, u, v) = (copy a, 0, 0, 0) for _i < 3i64 do
    let row xs x c =
      let red = f32.sum xs
      let w = c + x * 2
      in (x * red, w * red, w * x, w * s, replicate b (w * 3))
    let (p, q, r, acc, tr) = unzip5 (map3 row xss m acc)
    in (acc, t + f32.sum p, u + f32.sum q, v + f32.sum r + tr[0, 0])
