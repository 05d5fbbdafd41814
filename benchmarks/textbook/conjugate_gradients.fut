-- A Poisson equation by conjugate gradients (Shewchuk, 1994): the energy of the solution.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (b: [n][n]f64) (k: f64): f64 =
  let apply (u: [n][n]f64) =
    tabulate_2d n n (\i j ->
      let at a c = if a < 0 || a >= n || c < 0 || c >= n then 0 else u[a, c]
      in (4 + k) * u[i, j] - at (i - 1) j - at (i + 1) j - at i (j - 1) - at i (j + 1))
  let dot (u: [n][n]f64) (v: [n][n]f64) = f64.sum (map2 (\p q -> f64.sum (map2 (*) p q)) u v)
  let along s = map2 (map2 (\a d -> a + s * d))
  let (x, _, _, _) =
    loop (x, r, p, rr) = (replicate n (replicate n 0), b, b, dot b b) for _i < 50 do
      let ap = apply p
      let alpha = rr / dot p ap
      let r' = along (-alpha) r ap
      let rr' = dot r' r'
      in (along alpha x p, r', along (rr' / rr) r' p, rr')
  in dot x b
