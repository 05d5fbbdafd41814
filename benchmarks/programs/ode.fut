-- An ordinary differential equation (`an_ode` of the benchmark suite cmpad): y_0' = x_0 and y_i' = x_i y_(i-1), from
-- y(0) = 0 to time 2, in s steps of the classical Runge-Kutta method.  The gradient is that of the last component.

def slope [n] (x: [n]f64) (y: [n]f64): [n]f64 =
  map2 (*) x (sized n ([1] ++ take (n - 1) y))

def runge_kutta [n] (f: [n]f64 -> [n]f64) (y0: [n]f64) (time: f64) (s: i64): [n]f64 =
  let h = time / f64.i64 s
  let along y a k = map2 (\y k -> y + a * k) y k
  in loop y = y0 for _i < s do
     let k1 = f y
     let k2 = f (along y (h / 2) k1)
     let k3 = f (along y (h / 2) k2)
     let k4 = f (along y h k3)
     in map5 (\y a b c d -> y + h / 6 * (a + 2 * b + 2 * c + d)) y k1 k2 k3 k4

def solve [n] (s: i64) (x: [n]f64): [n]f64 =
  runge_kutta (slope x) (replicate n 0) 2 s

-- ==
-- entry: primal
-- input { [0.5, 3.0, -1.0] 2i64 } output { [1.0, 3.0, -2.0] }
-- input { [0.5] 1i64 } output { [1.0] }
entry primal [n] (x: [n]f64) (s: i64): [n]f64 = solve s x

-- ==
-- entry: gradient
-- input { [0.5, 3.0, -1.0] 2i64 } output { [-4.0, -0.6666666666666666, 2.0] }
-- input { [0.5] 1i64 } output { [2.0] }
entry gradient [n] (x: [n]f64) (s: i64): [n]f64 = vjp (\x -> last (solve s x)) x 1
