-- Potential energy of bodies that attract each other, softened.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (x: [n][3]f64) (mass: [n]f64): f64 =
  let pair i j =
    let r2 = f64.sum (map2 (\a b -> (a - b) ** 2) x[i] x[j]) + 1e-2
    in if i == j then 0 else mass[i] * mass[j] / f64.sqrt r2
  in -0.5 * f64.sum (tabulate n (\i -> f64.sum (tabulate n (pair i))))
