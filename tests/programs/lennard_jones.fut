-- Energy of atoms by the Lennard-Jones potential, up to a cutoff, and the forces on them.
def pair (epsilon: f64) (sigma: f64) (r2: f64): f64 =
  let s6 = (sigma * sigma / r2) ** 3
  in 4 * epsilon * (s6 ** 2 - s6)

def distance2 (a: [3]f64) (b: [3]f64): f64 = f64.sum (map2 (\p q -> (p - q) * (p - q)) a b)

-- ==
-- entry: energy
-- input { [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]] 1.0 1.0 2.1 } output { -0.0615234375 }
-- input { [[0.0, 0.0, 0.0]] 1.0 1.0 2.0 } output { 0.0 }
-- input { empty([0][3]f64) 1.0 1.0 2.0 } output { 0.0 }
entry energy [n] (xs: [n][3]f64) (epsilon: f64) (sigma: f64) (cutoff: f64): f64 =
  let one i j =
    let r2 = distance2 xs[i] xs[j]
    in if i < j && r2 < cutoff * cutoff then pair epsilon sigma r2 else 0
  in f64.sum (tabulate n (\i -> f64.sum (tabulate n (one i))))

-- Each atom pushes the other one away.
-- ==
-- entry: forces
-- input { [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]] 1.0 1.0 2.0 } output { [[-24.0, 0.0, 0.0], [24.0, 0.0, 0.0]] }
entry forces [n] (xs: [n][3]f64) (epsilon: f64) (sigma: f64) (cutoff: f64): [n][3]f64 =
  map (map f64.neg) (vjp (\xs -> energy xs epsilon sigma cutoff) xs 1)

-- The stiffness of a bond of the Mie potential, whose exponents are the user's, at its length.
-- ==
-- entry: stiffness
-- input { 2.0 1.5 } output { 28.444444444444443 }
entry stiffness (depth: f64) (length: f64): f64 =
  let mie r = depth * ((length / r) ** 8 - 2 * (length / r) ** 4)
  in jvp (\r -> jvp mie r 1) length 1
