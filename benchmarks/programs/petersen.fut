-- The Petersen graph's ten vertices placed in d dimensions such that all fifteen edges have one length, and all other
-- pairs another, larger one: the variances of the squared lengths, and a penalty where the second is not larger by 0.1.
-- Source of the problem: Liu and Zhao, Differentiate everything with a reversible programming language, 2020,
-- section 4.3.
-- ==
-- entry: loss gradient hessian
-- input { [[0.3, -0.1], [0.2, 0.9], [-0.4, 0.5], [0.8, 0.1], [-0.7, -0.6], [0.1, 0.4], [0.9, -0.8], [-0.2, -0.3],
--          [0.6, 0.7], [-0.5, 0.0]] }

-- An outer cycle of five, an inner one of every other, and the spokes.
def edge (a: i64) (b: i64) : bool =
  let ring (step: i64) = (b - a) % 5 == step || (a - b) % 5 == step
  in if a < 5 && b < 5 then ring 1
     else if a >= 5 && b >= 5 then ring 2
     else b - a == 5 || a - b == 5

def pairs : []i64 = filter (\p -> p / 10 < p % 10) (iota 100)

def mean [n] (xs: [n]f64) : f64 = f64.sum xs / f64.i64 n

def variance [n] (xs: [n]f64) : f64 =
  let m = mean xs
  in mean (map (\x -> (x - m) * (x - m)) xs)

def squared_lengths [n][d] (places: [10][d]f64) (pairs: [n]i64) : [n]f64 =
  map (\p -> f64.sum (map2 (\a b -> (a - b) * (a - b)) places[p / 10] places[p % 10])) pairs

def embedding [d] (places: [10][d]f64) : f64 =
  let (edges, others) = partition (\p -> edge (p / 10) (p % 10)) pairs
  let near = squared_lengths places edges
  let far = squared_lengths places others
  in variance near + variance far + f64.exp (f64.max 0 (mean near - mean far + 0.1)) - 1

def slope [d] (places: [10][d]f64) : [10][d]f64 = vjp embedding places 1

entry loss [d] (places: [10][d]f64) : f64 = embedding places

entry gradient [d] (places: [10][d]f64) : [10][d]f64 = slope places

-- The second derivatives by both places.
entry hessian [d] (places: [10][d]f64) : [10][d][10][d]f64 =
  let unit i j = tabulate_2d 10 d (\k l -> f64.bool (i == k && j == l))
  in unflatten (jmp slope places (flatten (tabulate_2d 10 d unit)))

entry losses [b][d] (batch: [b][10][d]f64) : [b]f64 = map embedding batch

entry gradients [b][d] (batch: [b][10][d]f64) : [b][10][d]f64 = map slope batch
