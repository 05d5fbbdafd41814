-- Sizes computed from sizes, in types and results.
-- ==
-- input { [1, 2] [3, 4, 5] }
-- output { [1, 2, 3, 4, 5] [1, 2, 0] 5i64 [[1, 2, 9], [1, 2, 9]] 2i64 }
-- input { empty([0]i32) [1] }
-- output { [1] [0] 1i64 empty([0][1]i32) 0i64 }
def append [n] (xs: [n]i32) (x: i32): [n + 1]i32 = xs ++ [x]

def join [n][m] (xs: [n]i32) (ys: [m]i32): [n + m]i32 = concat xs ys

def pairs [n] (xs: [2 * n]i32): [n]i32 = map (\i -> xs[2 * i] + xs[2 * i + 1]) (iota n)

entry main [n][m] (xs: [n]i32) (ys: [m]i32) =
  ( join xs ys
  , append xs 0
  , length (append xs 1) + length (join xs ys) - length xs - 1
  , replicate n (append xs 9)
  , length (pairs (join xs xs :> [2 * n]i32))
  )
