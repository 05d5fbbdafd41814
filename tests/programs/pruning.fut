-- The likelihood of a tree given by indices of children, in postorder: transition matrices, rescaled vectors.
type rates = {kappa: f64, pi: [4]f64}
def transition (q: rates) (t: f64): [4][4]f64 =
  let beta = 1 / (2 * (q.pi[0] + q.pi[2]) * (q.pi[1] + q.pi[3]) + 2 * q.kappa * (q.pi[0]*q.pi[2] + q.pi[1]*q.pi[3]))
  let cls i = i % 2
  in tabulate_2d 4 4 (\i j ->
    let group = q.pi[cls j] + q.pi[cls j + 2]
    let a = 1 + group * (q.kappa - 1)
    let e1 = f64.exp (-beta * t) let e2 = f64.exp (-beta * t * a)
    in if i == j then q.pi[j] + q.pi[j] * (1 / group - 1) * e1 + (group - q.pi[j]) / group * e2
       else if cls i == cls j then q.pi[j] + q.pi[j] * (1/group - 1) * e1 - q.pi[j] / group * e2
       else q.pi[j] * (1 - e1))
-- The second input's is by the Jukes-Cantor formula for the distance between both leaves, 0.3.
-- ==
-- entry: loglik
-- input { 1.0 [0.25, 0.25, 0.25, 0.25] [0.0, 0.0, 0.0] [0i64] [1i64] [[2i64], [2i64]] } output { -1.3862943611198906 }
-- input { 1.0 [0.25, 0.25, 0.25, 0.25] [0.1, 0.2, 0.0] [0i64] [1i64] [[2i64, 0i64], [2i64, 1i64]] } output { -5.552551365412117 }
-- input { 1.0 [0.25, 0.25, 0.25, 0.25] [0.1] empty([0]i64) empty([0]i64) empty([1][0]i64) } output { 0.0 }
entry loglik [taxa] [inner] [nodes] [sites] (kappa: f64) (pi: [4]f64) (lens: [nodes]f64)
    (left: [inner]i64) (right: [inner]i64) (data: [taxa][sites]i64): f64 =
  let q = {kappa, pi}
  let ps = map (transition q) lens
  let site (obs: [taxa]i64): f64 =
    let leaf s = tabulate 4 (\k -> f64.bool (k == s))
    let part0 = scatter (replicate nodes (replicate 4 0)) (iota taxa) (map leaf obs)
    let (parts, scale) = loop (parts: *[nodes][4]f64, scale) = (part0, 0.0) for i < inner do
      let up c = map (\row -> f64.sum (map2 (*) row parts[c])) ps[c]
      let l = up left[i] let r = up right[i]
      let v = map2 (*) l r
      let m = f64.maximum v
      in (parts with [taxa + i] = map (/ m) v, scale + f64.log m)
    in f64.log (f64.sum (map2 (*) pi parts[nodes - 1])) + scale
  in f64.sum (map site (transpose data))

-- With two leaves only the sum of both branches matters.
-- ==
-- entry: balanced
-- input { 2.0 0.1 0.2 } output { true }
-- input { 1.0 0.3 0.0 } output { true }
entry balanced (kappa: f64) (a: f64) (b: f64): bool =
  let g = vjp (\lens -> loglik kappa [0.1, 0.2, 0.3, 0.4] lens [0] [1] [[0, 1, 2], [0, 3, 1]]) [a, b, 0] 1
  in f64.abs (g[0] - g[1]) < 1e-9 && g[2] == 0
