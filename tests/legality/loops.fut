-- Promises and saved scalars of loops: an entry for each condition.

entry stale [n] (x: [n]f64) : [n]f64 =
  vjp (\x -> f64.sum (loop #[true_dep] ys = copy x for i < n - 1 do
                        let c = copy ys
                        let ys[i + 1] = ys[i] * 2
                        in ys with [i] = c[i + 1] * c[i + 1])) x 1

entry sides [n] (x: [n]f64) : [n]f64 =
  vjp (\x -> f64.sum (loop #[true_dep] ys = copy x for i < n do
                        let (a, b) = if x[i] > 1 then (ys with [i] = x[i] * ys[i], copy x) else (copy x, ys)
                        in if i == 0 then a else b)) x 1

entry scalars [n][m] (ws: [n][m]f64) (x: [m]f64) : [n][m]f64 =
  vjp (\ws -> loop s = 0 for _j < 3 do
                s + f64.sum (loop x = x for i < n do map2 (\x w -> f64.exp (x * w) * f64.sin w) x ws[i])) ws 1

entry scalars_shifted [n][m] (ws: [n][m]f64) (x: [m]f64) : [n][m]f64 =
  vjp (\ws -> loop s = 0 for _j < 3 do
                s + f64.sum (loop x = x for i < n - 1 do map2 (\x w -> f64.exp (x * w) * f64.sin w) x ws[i + 1])) ws 1

entry scalars_updated [n][m] (ws: [n][m]f64) (x: [m]f64) : [n][m]f64 =
  vjp (\ws -> loop s = 0 for _j < 3 do
                s + f64.sum (loop x = x for i < n do
                               let y = copy x with [i % m] = 0.5
                               in map2 (\y w -> f64.exp (y * w) * f64.sin w) y ws[i])) ws 1

entry triangle [n] (x: [n]f64) : [n]f64 =
  vjp (\x -> loop s = 0 for j < n do
               s + f64.sum (loop x = x for i < j do map (\y -> f64.exp (-y) * f64.sin (y * f64.i64 i)) x)) x 1

entry fewer_than_none [n][m] (a: [n]f64) (b: [m]f64) =
  vjp (\(a, b) -> f64.sum (loop s = copy b for i < n do
                             loop t = map (* a[i]) s for j < m - 4 do
                               map2 (\x y -> f64.exp (-x * y) * f64.tanh (x + y + f64.i64 j)) t b)) (a, b) 1
