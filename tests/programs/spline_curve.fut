-- A spline by de Boor's recursion at many points, and the gradient of its squared distance from others.
-- ==
-- entry: curve
-- input { [0.0, 1.0, 4.0, 9.0, 16.0] [0.0, 0.25, 0.5, 0.75] }
-- output { [1.3333333333333333, 2.5833333333333335, 4.333333333333334, 6.583333333333333] }
def at [k] (c: [k]f64) (x: f64): f64 =
  let u = x * f64.i64 (k - 3)
  let j = i64.min (k - 4) (i64.f64 u)
  let d = loop d = map (\i -> c[j + i]) (iota 4) for r in 1...3 do
    map (\i -> if i < r then d[i] else
      let al = (u - f64.i64 (j + i - 3)) / f64.i64 (4 - r)
      in (1 - al) * d[i - 1] + al * d[i]) (iota 4)
  in d[3]

entry curve [k][n] (c: [k]f64) (x: [n]f64): [n]f64 = map (at c) x

-- ==
-- entry: gradient
-- input { [0.0, 1.0, 4.0, 9.0, 16.0] [0.0, 0.25, 0.5, 0.75] [1.0, 2.0, 4.0, 7.0] }
-- output { [0.13541666666666666, 1.0972222222222225, 0.7152777777777786, -0.263888888888889, -0.017361111111111122] }
entry gradient [k][n] (c: [k]f64) (x: [n]f64) (y: [n]f64): [k]f64 =
  vjp (\c -> f64.sum (map2 (\p q -> (at c p - q) ** 2) x y)) c 1
