-- Heat in a block of cells: where a neighbour is missing, the cell itself stands for it.
-- ==
-- entry: warmed
-- input { [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 9.0]]] 1i64 }
-- output { [[[1.7, 2.5], [3.3, 4.2]], [[4.9, 5.8], [6.6, 8.0]]] }
-- input { [[[1.0]]] 3i64 } output { [[[1.0]]] }
-- input { empty([0][0][0]f64) 2i64 } output { empty([0][0][0]f64) }
entry warmed [n] (u: [n][n][n]f64) (steps: i64) : [n][n][n]f64 =
  loop u for _t < steps do
    tabulate_3d n n n (\i j k ->
      let c = u[i, j, k]
      let e = if i == 0 then c else u[i - 1, j, k]
      let w = if i == n - 1 then c else u[i + 1, j, k]
      let s = if j == 0 then c else u[i, j - 1, k]
      let o = if j == n - 1 then c else u[i, j + 1, k]
      let l = if k == 0 then c else u[i, j, k - 1]
      let r = if k == n - 1 then c else u[i, j, k + 1]
      in c + 0.1 * (e + w + s + o + l + r - 6 * c))

entry cooling [n] (u: [n][n][n]f64) (steps: i64) : [n][n][n]f64 =
  vjp (\u -> f64.sum (flatten (flatten (map (map (map (\x -> x * x))) (warmed u steps))))) u 1
