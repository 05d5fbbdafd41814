-- Derivatives through the layers that functors make, in one field of a record and in all.
module type act = { val f : f64 -> f64 }
module net (A: act) = {
  type layer [i] [o] = {w: [o][i]f64, b: [o]f64}
  def apply [i] [o] (l: layer [i] [o]) (x: [i]f64) : [o]f64 = map2 (\r b -> A.f (f64.sum (map2 (*) r x) + b)) l.w l.b
}
module relu_net = net { def f (x: f64) = if x > 0 then x else 0 }
module tanh_net = net { def f = f64.tanh }
def model (l1: relu_net.layer [2] [3]) (l2: tanh_net.layer [3] [1]) (x: [2]f64) = (tanh_net.apply l2 (relu_net.apply l1 x))[0]
-- ==
-- input { [0.5, -1.0] } output { 0.76159416 [[0.0, 0.0], [0.20998717, -0.41997434], [0.0, 0.0]] [[0.0, 0.41997434]] true }
entry main (x: [2]f64) =
  let l1 = {w = [[-1, 0], [0, -1], [-1, 1]], b = [0, 0, 0]}
  let l2 = {w = [[1, 1, 1]], b = [0]}
  let y = model l1 l2 x
  let g1 = vjp (\l -> model l l2 x) l1 1
  let h = jvp (\b -> vjp (\l -> model (l with b = b) l2 x) l1 1) l1.b [1, 0, 0]
  in (y, g1.w, [[0, g1.b[1]]], f64.sum h.b == 0)
