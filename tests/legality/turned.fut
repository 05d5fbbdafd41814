-- Arrays of rows that are turned along their outer axis, and what looks like it.
entry rows [n][m] (u: [n][m]f64) (k: i64): [n][m]f64 =
  map2 (map2 (\a b -> a - 2 * b)) (rotate k u) (rotate (-1) u)

-- Rows of two arrays.
entry two [n][m] (u: [n][m]f64) (v: [n][m]f64): [][m]f64 =
  map (map (* 3)) (u[1:] ++ v[:1])

-- Rows and columns of one array.
entry columns [n] (u: [n][n][2]f64): [][n][2]f64 =
  map (map (map (+ 1))) (u[1:] ++ transpose u)

-- The array is overwritten before its rows are read.
entry overwritten [n] (u: *[n][3]f64) : ([n][3]f64, [n][3]f64) =
  let t = rotate 1 u
  let u = copy u with [0] = [7, 8, 9]
  in (map2 (map2 (+)) t u, u)

entry steps [n] (u: [n][3]f64) (k: i64) : [n][3]f64 =
  loop u for _i < k do map3 (map3 (\a b c -> a - 0.5 * b + 0.25 * c)) u (rotate 1 u) (rotate (-1) u)

entry back [n] (u: [n]f64): [n]f64 =
  vjp (\u -> f64.sum (map2 (\x i -> f64.sin x * f64.i64 i) (rotate 2 u) (iota n))) u 1

-- Parts that leave elements out, or have some twice.
entry apart (u: [5]f64): [5]f64 =
  vjp (\(u: [5]f64) -> f64.sum (map2 (\x i -> f64.sin x * f64.i64 i) (u[3:] ++ u[:2] :> [4]f64) (iota 4))) u 1

entry twice (u: [5]f64): [5]f64 =
  vjp (\(u: [5]f64) -> f64.sum (map2 (\x i -> f64.sin x * f64.i64 i) (u[2:] ++ u[:3] :> [6]f64) (iota 6))) u 1

entry overlapping (u: [5]f64): [5]f64 =
  vjp (\(u: [5]f64) -> f64.sum (map2 (\x i -> f64.sin x * f64.i64 i) (u[1:3] ++ u[:3] :> [5]f64) (iota 5))) u 1

entry shorter (u: [5]f64): [5]f64 =
  vjp (\(u: [5]f64) -> f64.sum (map2 (\x i -> f64.sin x * f64.i64 i) (u[2:4] ++ u[:2] :> [4]f64) (iota 4))) u 1

entry gradient [n] (u: [n][3]f64) (k: i64) : [n][3]f64 =
  vjp (\u -> f64.sum (map f64.sum (map (map f64.sin) (steps u k)))) u 1
