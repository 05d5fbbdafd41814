-- Log marginal likelihood of a Gaussian process (Rasmussen and Williams, 2006, algorithm 2.1).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def cholesky [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    loop l for j < i + 1 do
      let s = f64.sum (map2 (*) l[i, :j] l[j, :j])
      in if i == j
         then l with [i, j] = f64.sqrt (a[i, i] - s)
         else l with [i, j] = (a[i, j] - s) / l[j, j]

def forward [n] (l: [n][n]f64) (b: [n]f64): [n]f64 =
  loop x = replicate n 0 for i < n do
    x with [i] = (b[i] - f64.sum (map2 (*) l[i, :i] x[:i])) / l[i, i]

entry value [n][d] (scale: f64) (noise: f64) (x: [n][d]f64) (y: [n]f64): f64 =
  let kernel a b = f64.exp (-0.5 * f64.sum (map2 (\p q -> ((p - q) / scale) ** 2) a b))
  let k = tabulate_2d n n (\i j -> kernel x[i] x[j] + if i == j then noise * noise else 0)
  let l = cholesky k
  let alpha = forward l y
  in 0.5 * f64.sum (map (** 2) alpha) + f64.sum (tabulate n (\i -> f64.log l[i, i]))
     + 0.5 * f64.i64 n * f64.log (2 * f64.pi)
