-- iota, replicate, rep, tabulate and its 2-d and 3-d forms.
-- ==
-- input { 2i64 3i64 }
-- output { [0i64, 1i64] [5.0, 5.0] [7, 7, 7] [0i64, 1i64] [[0i64, 1i64, 2i64], [10i64, 11i64, 12i64]] [[[0i64, 1i64], [2i64, 3i64], [4i64, 5i64]]] }
-- input { 0i64 1i64 }
-- output { empty([0]i64) empty([0]f64) [7] empty([0]i64) empty([0][1]i64) empty([1][1][0]i64) }
entry main (n: i64) (m: i64) =
  ( iota n
  , replicate n 5.0
  , rep 7 : [m]i32
  , tabulate n (\i -> i * i)
  , tabulate_2d n m (\i j -> 10 * i + j)
  , tabulate_3d 1 m n (\i j k -> 100 * i + n * j + k)
  )
