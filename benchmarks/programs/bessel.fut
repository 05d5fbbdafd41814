-- Bessel functions of the first kind by their power series, whose terms are added until they are small: a loop of
-- unknown length in each element of a batch. The derivative is (J_(v-1) - J_(v+1)) / 2.
-- Source of the problem: Liu and Zhao, Differentiate everything with a reversible programming language, 2020,
-- section 4.2.
-- ==
-- entry: value
-- input { 2i64 [1.0, 0.0, 5.0] } output { [0.1149034849319005, 0.0, 0.04656511627775222] }

-- ==
-- entry: gradient
-- input { 2i64 [1.0, 0.0, 5.0] } output { [0.2102436158811326, 0.0, -0.3462051841026118] }

-- ==
-- entry: second
-- input { 2i64 [1.0, 5.0] } output { [0.1344668116589958, 0.03012633909926176] }

def bessel (order: i64) (z: f64) : f64 =
  let half = z / 2
  let first = (half ** f64.i64 order) / f64.i64 (i64.product (map (+ 1) (iota order)))
  let (sum, _, _) =
    loop (sum, term, k) = (first, first, 1) while f64.abs term > 1e-8 do
      let term = -term * half * half / f64.i64 (k * (k + order))
      in (sum + term, term, k + 1)
  in sum

entry value [n] (order: i64) (zs: [n]f64) : [n]f64 = map (bessel order) zs

def slope (order: i64) (z: f64) : f64 = vjp (bessel order) z 1

entry gradient [n] (order: i64) (zs: [n]f64) : [n]f64 = map (slope order) zs

entry second [n] (order: i64) (zs: [n]f64) : [n]f64 = map (\z -> jvp (slope order) z 1) zs
