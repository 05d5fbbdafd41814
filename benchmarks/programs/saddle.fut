-- The saddle point of (x1^2 + y1^2) - (x2^2 + y2^2) by gradient descent within gradient descent (Pearlmutter and
-- Siskind 2008): the first point minimises what the second maximises.  Of the two letters of an entry the first is the
-- mode of the outer descent's derivative, the second that of the inner one's: f forward, r reverse.

import "descent"

def f (p: [2]f64) (q: [2]f64): f64 =
  (p[0] * p[0] + p[1] * p[1]) - (q[0] * q[0] + q[1] * q[1])

type^ gradient = ([2]f64 -> f64) -> [2]f64 -> [2]f64

def saddle (outer: gradient) (inner: gradient) (start: [2]f64): [4]f64 =
  let worst p = f p (argmax inner (f p) start)
  let p = argmin outer worst start
  let q = argmax outer (f p) start
  in [p[0], p[1], q[0], q[1]]

-- ==
-- entry: ff fr rf rr
-- input { [1.0, 1.0] }
-- output { [8.246324826140356e-06, 8.246324826140356e-06, 8.246324826140356e-06, 8.246324826140356e-06] }
entry ff (start: [2]f64): [4]f64 = saddle forward_gradient forward_gradient start
entry fr (start: [2]f64): [4]f64 = saddle forward_gradient reverse_gradient start
entry rf (start: [2]f64): [4]f64 = saddle reverse_gradient forward_gradient start
entry rr (start: [2]f64): [4]f64 = saddle reverse_gradient reverse_gradient start
