-- Loops whose arrays change places in each iteration, an odd and an even number of times, from values that are no arrays yet.
-- ==
-- entry: filled
-- input { [1.0, 2.0, 3.0] }
-- output { [1.0, 3.0, 1.0] [1.0, 0.0, 3.0] }
-- input { [1.0, 2.0, 3.0, 4.0] }
-- output { [1.0, 0.0, 3.0, 0.0] [1.0, 3.0, 1.0, 5.0] }
-- input { empty([0]f64) }
-- output { empty([0]f64) empty([0]f64) }
entry filled [n] (xs: [n]f64) : ([n]f64, [n]f64) =
  loop (a, b) = (replicate n 0, replicate n 1) for i < n do let x = a[i] in (b, a with [i] = x + xs[i])

-- ==
-- entry: three
-- input { [1i64, 2, 3] 4i64 }
-- output { [-1i64, 0, 0] [-2i64, -1, -2] [-4i64, 2, 3] }
-- input { [1i64, 2, 3] 0i64 }
-- output { [1i64, 2, 3] [0i64, 0, 0] [0i64, -1, -2] }
entry three [n] (xs: [n]i64) (k: i64) : ([n]i64, [n]i64, [n]i64) =
  loop (a, b, c) = (copy xs, replicate n 0, map (* -1) (iota n)) for i < k do
    (b, c, a with [0] = b[0] - i)
