-- Programs that tempt a loop along many rows of an array to become several.

-- Rows that are read twice, and overwritten in between.
entry overwritten [q][n] (x: [q][n]f64) (b: [q][10][n]f64) (t: i64): ([q][n]f64, [q][n]f64) =
  loop (x, _y) = (x, x) for _i < i64.min t 3 do
    unzip (map2 (\r c -> unzip (map (\j ->
        let s = r[j]
        in (0.5 * s + c[0, j] * c[1, j] + c[2, j] * c[3, j] + c[4, j],
            s - c[5, j] * c[6, j] + c[7, j] * c[8, j] + c[9, j])) (iota n))) x b)
-- Rows that are only added to, in the return sweep of a recursive function.
def gates [n][k] (ws: [5][k][k]f64) (xs: [n][k]f64): [k]f64 =
  if n == 1 then xs[0]
  else let h = gates ws (drop 1 xs)
       let dots w = map (\r -> f64.sum (map2 (*) r h)) w
       in map5 (\a b c d e -> f64.tanh a * f64.sin b + f64.cos c * f64.tanh d + f64.sin e)
            (dots ws[0]) (dots ws[1]) (dots ws[2]) (dots ws[3]) (dots ws[4])
entry added [n][k] (ws: [5][k][k]f64) (xs: [n][k]f64) (s: [k]f64): ([5][k][k]f64, [n][k]f64) =
  if n == 0 then (ws, xs) else vjp (\(ws, xs) -> gates ws xs) (ws, xs) s
