-- Derivatives of functions of records that yield records, and of a stripmined loop.
def f [n] (p: {xs: [n]f64, k: f64}) = {y = f64.sum (map (\x -> x ** p.k) p.xs), z = map (* p.k) p.xs}
-- ==
-- input { [1.0, 2.0] } output { [2.0, 4.0] 2.7725887222397813 [2.0, 0.0] [[2.0, 0.0], [0.0, 2.0]] [1.0, 2.0] 8.0 }
entry main [n] (xs: [n]f64) =
  let p = {xs, k = 2.0}
  let zero = replicate n 0f64
  let r = vjp f p {y = 1, z = zero}
  let t = jvp f p {xs = copy zero with [0] = 1, k = 0}
  let js = map (\i -> (jvp f p {xs = tabulate n (\j -> f64.bool (i == j)), k = 0}).z) (iota n)
  let l = vjp (\x -> #[stripmine(2)] loop s = x for i < 7 do s * (if i % 2 == 0 then 2 else 0.5)) 1.0 1.0
  in (r.xs, r.k, t.z, js, (jvp f p {xs = zero, k = 1}).z, l * 4)
