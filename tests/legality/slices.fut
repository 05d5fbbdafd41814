-- Elements of slices, read where they are: an entry for each condition.
def dot [c] (a: [c][3]f64) (b: [c][3]f64) : f64 = f64.sum (map2 (\x y -> f64.sum (map2 (*) x y)) a b)

-- A slice out of range fails, whether or not its elements are read.
entry windows [n][c][h][o] (ps: [n]i64) (x: [n][c][h]f64) (k: [o][c][3]f64) (w: [n][o]f64) : [o][c][3]f64 =
  vjp (\k -> map2 (\im p -> map (\f -> let p = p % 1000 in dot (im[:, p : p + 3] :> [c][3]f64) f) k) x ps) k w
entry turned [n][c][h][o] (is: [c]i64) (x: [n][c][h]f64) (k: [o][c]f64) (w: [n][o][h]f64) : [o][c]f64 =
  vjp (\k -> map (\im -> map (\f -> tabulate h (\j ->
    f64.sum (map3 (\i x f -> x * f * f64.i64 i) is (im[:, j] :> [c]f64) f))) k) x) k w
