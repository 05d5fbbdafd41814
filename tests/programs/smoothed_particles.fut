-- Smoothed particle hydrodynamics: densities by a kernel of compact support, pressures by Tait's equation of state, and
-- what the particles' internal energy changes by their positions.
def kernel (h: f64) (r2: f64): f64 =
  315 / (64 * f64.pi * h ** 3) * (f64.max 0 (1 - r2 / (h * h))) ** 3

-- ==
-- entry: densities
-- input { [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [3.0, 0.0, 0.0]] 1.0 }
-- output { [2.227625216664639, 2.227625216664639, 1.5666814710608448] }
-- input { empty([0][3]f64) 1.0 } output { empty([0]f64) }
entry densities [n] (xs: [n][3]f64) (h: f64): [n]f64 =
  map (\x -> f64.sum (map (\y -> kernel h (f64.sum (map2 (\p q -> (p - q) * (p - q)) x y))) xs)) xs

-- ==
-- entry: pressures
-- input { [1.0, 2.0, 0.5] 1.0 7.0 } output { [0.0, 127.0, -0.9921875] }
entry pressures [n] (rho: [n]f64) (rest: f64) (stiffness: f64): [n]f64 =
  map (\r -> stiffness / 7 * ((r / rest) ** 7 - 1)) rho

-- ==
-- entry: energy
-- input { [[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]] 1.0 } output { 4.929047325074402 }
entry energy [n] (xs: [n][3]f64) (h: f64): f64 = f64.sum (map (\r -> (r ** 6) / 6) (densities xs h))

entry forces [n] (xs: [n][3]f64) (h: f64): [n][3]f64 = map (map f64.neg) (vjp (\xs -> energy xs h) xs 1)
