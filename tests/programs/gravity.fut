-- Accelerations by gravity, softened, and the period of a circular orbit by Kepler's third law.
-- ==
-- entry: accelerations
-- input { [[0.0, 0.0], [3.0, 4.0]] [1.0, 2.0] 0.0 } output { [[0.048, 0.064], [-0.024, -0.032]] }
-- input { [[1.0, 2.0]] [1.0] 0.5 } output { [[0.0, 0.0]] }
-- input { empty([0][2]f64) empty([0]f64) 0.5 } output { empty([0][2]f64) }
entry accelerations [n] (xs: [n][2]f64) (masses: [n]f64) (soft: f64): [n][2]f64 =
  map2 (\x i ->
    let pull y m j =
      let d = map2 (-) y x
      let r2 = f64.sum (map (\p -> p * p) d) + soft * soft
      in if i == j then [0, 0] else map (* (m * r2 ** -1.5)) d
    in reduce (map2 (+)) [0, 0] (map3 pull xs masses (iota n))) xs (iota n)

-- ==
-- entry: periods
-- input { [1.0, 4.0, 0.0] 1.0 } output { [6.283185307179586, 50.26548245743669, 0.0] }
entry periods [n] (radii: [n]f64) (mass: f64): [n]f64 = map (\a -> 2 * f64.pi * a ** 1.5 / mass ** 0.5) radii

-- How the periods change with the radii; at zero by nothing.
-- ==
-- entry: slopes
-- input { [1.0, 4.0, 0.0] 1.0 } output { [9.42477796076938, 18.84955592153876, 0.0] }
entry slopes [n] (radii: [n]f64) (mass: f64): [n]f64 = vjp (\r -> f64.sum (periods r mass)) radii 1
