-- Branches that read, check and divide, in maps that compute much: what the side not taken does is not done.

-- Far away where the other side is taken.
entry reads_far [n] (ks: [n]i64) (x: [n]f64): [n]f64 =
  map2 (\k t -> let b = k * 100000000000
                let q = if 0 <= b && b < n then x[b] else t
                in f64.exp (f64.sin q) + f64.log (1 + f64.abs (f64.cos q)) * f64.tanh t + f64.atan q) ks x
-- Out of range where the other side is taken, which is checked.
entry checks_there [n] (ks: [n]i64) (x: [n]f64): [n]f64 =
  tabulate n (\i -> let j = i - n * i64.bool (ks[i] <= 0)
                    let q = if ks[i] > 0 then x[j] else x[i]
                    in f64.exp (f64.sin q) + f64.log (1 + f64.abs (f64.cos q)) * f64.tanh q + f64.atan q)
-- By zero where the other side is taken.
entry divides_there [n] (ks: [n]i64) (x: [n]f64): [n]f64 =
  tabulate n (\i -> let d = i64.max 0 (i64.min 2 ks[i])
                    let q = if d > 0 && i > 0 then x[i - 1] * f64.i64 (100 / d) else x[i]
                    in f64.exp (f64.sin q) + f64.log (1 + f64.abs (f64.cos q)) * f64.tanh q + f64.atan q)
