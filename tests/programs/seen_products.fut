-- Products that are asked for under a condition: a matrix of which some elements are seen, causal attention.
-- ==
-- entry: seen
-- input { [[1.0, 2.0], [0.5, -1.0]] [[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]] [[1.0, 0.0, 2.5], [0.75, 2.0, 0.25]] }
-- output { 4.3125 }
-- input { empty([0][2]f64) [[1.0, 0.0]] empty([0][1]f64) } output { 0.0 }
-- input { [[1.0, 2.0]] empty([0][2]f64) empty([1][0]f64) } output { 0.0 }
entry seen [u][m][r] (us: [u][r]f64) (vs: [m][r]f64) (x: [u][m]f64) : f64 =
  f64.sum (map2 (\a row ->
    f64.sum (map2 (\b y -> if y < 0.5 then 0 else (f64.sum (map2 (*) a b) - y) ** 2) vs row)) us x)

-- ==
-- entry: causal
-- input { [[1.0], [0.0], [2.0]] [[0.0], [1.0], [0.0]] [[3.0], [1.0], [5.0]] } output { [[3.0], [2.0], [1.6390418735152044]] }
-- input { [[0.0, 1.0]] [[2.0, 0.0]] [[3.0, 4.0]] } output { [[3.0, 4.0]] }
-- input { empty([0][2]f64) empty([0][2]f64) empty([0][2]f64) } output { empty([0][2]f64) }
entry causal [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64) : [n][d]f64 =
  let row i =
    let s = tabulate n (\j -> if j > i then -f64.inf else f64.sum (map2 (*) q[i] k[j]))
    let top = f64.maximum s
    let e = map (\x -> f64.exp (x - top)) s
    let z = f64.sum e
    in map (\c -> f64.sum (map2 (*) e c) / z) (transpose v)
  in map row (iota n)

-- A filter whose terms outside of the signal are left out, at a distance that is given.
-- ==
-- entry: dilated
-- input { [[[1.0, 2.0]], [[0.0, -1.0]]] [[1.0, 2.0, 3.0, 4.0]] 2i64 }
-- output { [[1.0, 2.0, 5.0, 8.0], [0.0, 0.0, -1.0, -2.0]] }
-- input { [[[1.0, f64.inf]]] [[1.0, 2.0]] 5i64 } output { [[1.0, 2.0]] }
-- input { [[[1.0, 2.0]]] [[1.0, 2.0]] 0i64 } output { [[3.0, 6.0]] }
entry dilated [o][c][k][t] (w: [o][c][k]f64) (x: [c][t]f64) (dilation: i64) : [o][t]f64 =
  map (\f -> tabulate t (\i ->
    f64.sum (map2 (\g r -> f64.sum (map2 (\a j ->
      let p = i - j * dilation in if p < 0 || p >= t then 0 else a * r[p]) g (iota k))) f x))) w
