-- Shortest paths by a functor over semirings, all pairs at once.
module type sr = { type t val zero: t val plus: t -> t -> t val times: t -> t -> t val of: f64 -> t val to: t -> f64 }
module minplus = {
  type t = f64
  def zero = f64.inf
  def plus = f64.min
  def times (a: f64) b = a + b
  def of (x: f64) = x
  def to (x: f64) = x
}
module closure (s: sr) = {
  def run [n] (w: [n][n]f64): [n][n]f64 =
    let d = map (map s.of) w
    let d = loop d for k < n do
      map (\row -> map2 (\j x -> s.plus x (s.times row[k] d[k, j])) (iota n) row) d
    in map (map s.to) d
}
module cm = closure minplus

-- ==
-- entry: paths
-- input { [[0.0, 1.0, 5.0], [9.0, 0.0, 2.0], [1.0, 9.0, 0.0]] } output { [[0.0, 1.0, 3.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]] }
-- input { [[0.5]] } output { [[0.5]] }
-- input { empty([0][0]f64) } output { empty([0][0]f64) }
entry paths [n] (w: [n][n]f64): [n][n]f64 = cm.run w

-- How often each edge is on a shortest path.
-- ==
-- entry: uses
-- input { [[0.0, 1.0, 5.0], [9.0, 0.0, 2.0], [1.0, 9.0, 0.0]] } output { [[1.0, 3.0, 0.0], [0.0, 1.0, 3.0], [3.0, 0.0, 1.0]] }
-- input { [[0.5]] } output { [[1.0]] }
-- input { empty([0][0]f64) } output { empty([0][0]f64) }
entry uses [n] (w: [n][n]f64): [n][n]f64 = vjp (\w -> f64.sum (flatten (cm.run w))) w 1
