-- An extremum is compared with what it was chosen from, computed once more with other bits: a sine for vector lanes is
-- another one than that for scalars.
-- at -O3
-- The least element's place is found by comparing it with the elements, sines that are computed again.
def ends [n][k] (x: [n][k]f64) (w: [k][k]f64) =
  loop (v, hs) = (replicate k 0.7, replicate n (replicate k 0)) for i < n do
    let v = tabulate k (\s ->
      let z = f64.minimum (map2 (\u a -> 0.9 * (a * f64.sin u)) v w[s]) * 0.9
      in f64.sin (f64.exp (-f64.sqrt (0.1 + z * z)) + 0.3 * x[i, s]))
    in (v, hs with [(i * 2) % n] = v)
def repeated [n][k] (x: [n][k]f64) (w: [k][k]f64) =
  ends (loop x for _t < 3 do map (map (\a -> a / (1 + a * a))) (ends x w).1) w
entry places [n][k] (x: [n][k]f64) (w: [k][k]f64) (y: [k]f64) (z: [n][k]f64) =
  vjp (\(x, w) -> repeated x w) (x, w) (y, z)
