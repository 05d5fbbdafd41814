-- Gradients by forward mode: a pass for each argument, which one-hot tangents make linear (docs/ad.md), beside reverse
-- mode and dual numbers written by hand. The sum is the benchmark of "Using Rewrite Strategies for Efficient
-- Functional Automatic Differentiation".

def one_hot (n: i64) (i: i64): [n]f64 = tabulate n (\j -> f64.bool (i == j))

def forward [n] (f: [n]f64 -> f64) (xs: [n]f64): [n]f64 = tabulate n (\i -> jvp f xs (one_hot n i))

def reverse [n] (f: [n]f64 -> f64) (xs: [n]f64): [n]f64 = vjp f xs 1

def squares [n] (xs: [n]f64): f64 = f64.sum (map (\x -> x * x) xs)
def exp_sin [n] (xs: [n]f64): f64 = f64.sum (map (\x -> f64.exp (f64.sin x)) xs)
def lse [n] (xs: [n]f64): f64 = f64.log (f64.sum (map f64.exp xs))
def looped [n] (xs: [n]f64): f64 = loop s = 0 for x in xs do s + x * x

def banded [n] (xs: [n]f64): f64 =
  f64.sum (tabulate (n - 2) (\i -> let r = xs[i] - 2 * xs[i + 1] * xs[i + 1] + xs[i + 2] in r * r))

-- Data in bins, each of which has a weight: the weights' gradient.
def histogram [n][m] (bins: [m]i64) (ys: [m]f64) (ws: [n]f64): f64 =
  f64.sum (map2 (\b y -> if b < n then ws[b] * ws[b] * y else 0) bins ys)

-- ==
-- entry: sum_forward sum_reverse sum_duals
-- input { [2.0, -1.0, 0.5] } output { [1.0, 1.0, 1.0] }

-- ==
-- entry: squares_forward squares_reverse loop_forward loop_reverse
-- input { [2.0, -1.0, 0.5] } output { [4.0, -2.0, 1.0] }
entry sum_forward [n] (xs: [n]f64) = forward f64.sum xs
entry sum_reverse [n] (xs: [n]f64) = reverse f64.sum xs

-- Dual numbers: a value and its tangent.
def plus (a: f64, da: f64) (b: f64, db: f64): (f64, f64) = (a + b, da + db)
entry sum_duals [n] (xs: [n]f64): [n]f64 = tabulate n (\i -> (reduce plus (0, 0) (zip xs (one_hot n i))).1)

entry dot_forward [n] (ys: [n]f64) (xs: [n]f64) = forward (\xs -> f64.sum (map2 (*) xs ys)) xs
entry dot_reverse [n] (ys: [n]f64) (xs: [n]f64) = reverse (\xs -> f64.sum (map2 (*) xs ys)) xs
entry squares_forward [n] (xs: [n]f64) = forward squares xs
entry squares_reverse [n] (xs: [n]f64) = reverse squares xs
entry exp_sin_forward [n] (xs: [n]f64) = forward exp_sin xs
entry exp_sin_reverse [n] (xs: [n]f64) = reverse exp_sin xs
entry lse_forward [n] (xs: [n]f64) = forward lse xs
entry lse_reverse [n] (xs: [n]f64) = reverse lse xs
entry banded_forward [n] (xs: [n]f64) = forward banded xs
entry banded_reverse [n] (xs: [n]f64) = reverse banded xs
entry loop_forward [n] (xs: [n]f64) = forward looped xs
entry loop_reverse [n] (xs: [n]f64) = reverse looped xs
entry histogram_forward [m][n] (bins: [m]i64) (ys: [m]f64) (ws: [n]f64) = forward (histogram bins ys) ws
entry histogram_reverse [m][n] (bins: [m]i64) (ys: [m]f64) (ws: [n]f64) = reverse (histogram bins ys) ws

-- The Jacobian of `A x`, column by column or row by row.
def product [m][n] (a: [m][n]f64) (x: [n]f64): [m]f64 = map (\r -> f64.sum (map2 (*) r x)) a
entry columns_forward [m][n] (a: [m][n]f64) (x: [n]f64): [n][m]f64 = tabulate n (\i -> jvp (product a) x (one_hot n i))
entry columns_reverse [m][n] (a: [m][n]f64) (x: [n]f64): [n][m]f64 =
  transpose (tabulate m (\i -> vjp (product a) x (one_hot m i)))
