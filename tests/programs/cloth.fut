-- A cloth of springs under gravity, and the gradient of its distance from a target.
-- ==
-- entry: value
-- input { [[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 1.5], [1.0, 0.0, 1.0]]] 10.0
--   [[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]] 0i64 }
-- output { 0.25 }
def far [h][w] (p0: [h][w][3]f64) (stiff: f64) (target: [h][w][3]f64) (steps: i64): f64 =
  let force (p: [h][w][3]f64) i j =
    let spring a b =
      if a < 0 || a >= h || b < 0 || b >= w then [0, 0, 0] else
      let d = map2 (-) p[a, b] p[i, j]
      let l = f64.sqrt (f64.sum (map (** 2) d) + 1e-9)
      in map (\x -> stiff * (l - 1) * x / l) d
    let f = map2 (+) (map2 (+) (spring (i - 1) j) (spring (i + 1) j)) (map2 (+) (spring i (j - 1)) (spring i (j + 1)))
    in [f[0], f[1] - 9.8, f[2]]
  let pinned i j = i == 0 && (j == 0 || j == w - 1)
  let (p, _) = loop (p, v) = (p0, replicate h (replicate w (replicate 3 0))) for _s < steps do
    let v = tabulate_2d h w (\i j ->
      if pinned i j then [0, 0, 0] else map2 (\v f -> 0.99 * v + 0.02 * f) v[i, j] (force p i j))
    in (map2 (map2 (map2 (\x u -> x + 0.02 * u))) p v, v)
  in f64.sum (map2 (\a b -> f64.sum (map2 (\x y -> f64.sum (map2 (\s t -> (s - t) ** 2) x y)) a b)) p target)
entry value [h][w] (p: [h][w][3]f64) (stiff: f64) (target: [h][w][3]f64) (steps: i64): f64 = far p stiff target steps
entry gradient [h][w] (p: [h][w][3]f64) (stiff: f64) (target: [h][w][3]f64) (steps: i64): [h][w][3]f64 =
  vjp (\p -> far p stiff target steps) p 1
entry swayed [h][w] (p: [h][w][3]f64) (target: [h][w][3]f64): f64 = far p 30 target 100
