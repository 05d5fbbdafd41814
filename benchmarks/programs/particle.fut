-- A particle in the field of two fixed charges (Pearlmutter and Siskind 2008): find the w, which places one of the
-- charges, for which it falls through the origin.  The force is a derivative, and gradient descent needs that of the
-- whole path.  Of the two letters of an entry the first is the mode of the descent's derivative, the second that of
-- the force: f forward, r reverse.

import "descent"

def distance (p: [2]f64) (q: [2]f64): f64 = norm (minus p q)

-- a + s b
def plus (a: [2]f64) (s: f64) (b: [2]f64): [2]f64 = map2 (\a b -> a + s * b) a b

type^ gradient [n] = ([n]f64 -> f64) -> [n]f64 -> [n]f64

-- The square of where the particle meets the ground: Euler's method until a step goes below, then a straight line.
def miss (force: gradient [2]) (w: f64): f64 =
  let dt = 0.1
  let potential p = 1 / distance p [10, 10 - w] + 1 / distance p [10, 0]
  let (x, v, _) =
    loop (x, v, above) = ([0, 8], [0.75, 0], true) while above do
      let next = plus x dt v
      in if next[1] > 0 then (next, plus v (-dt) (force potential x), true)
         else (x, v, false)
  let ground = plus x (-x[1] / v[1]) v
  in ground[0] * ground[0]

def particle (outer: gradient [1]) (inner: gradient [2]) (w: f64): f64 =
  (argmin outer (\w -> miss inner w[0]) [w])[0]

-- ==
-- entry: ff fr rf rr
-- input { 0.0 } output { 0.2071918746486116 }
entry ff (w: f64): f64 = particle forward_gradient forward_gradient w
entry fr (w: f64): f64 = particle forward_gradient reverse_gradient w
entry rf (w: f64): f64 = particle reverse_gradient forward_gradient w
entry rr (w: f64): f64 = particle reverse_gradient reverse_gradient w
