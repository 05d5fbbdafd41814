-- One adjoint is given for two results; both go on to be added to.
entry seed_twice [n] (a: [n]f64) (b: [n]f64) (is: [n]i64) (s: [n]f64) =
  vjp (\(a, b) -> let p = map f64.sin a
                  let q = map f64.cos b
                  in (p, q, f64.sum (map (\i -> p[i % n] * q[(i + 1) % n]) is))) (a, b) (s, s, 1)
