-- Energy at the end of a leapfrog trajectory of Hamiltonian Monte Carlo (Neal, 2011), of a logistic model.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def potential [n][d] (x: [n][d]f64) (y: [n]f64) (w: [d]f64): f64 =
  let score row = f64.sum (map2 (*) row w)
  in f64.sum (map2 (\row t -> f64.log (1 + f64.exp (-(2 * t - 1) * score row))) x y) + 0.5 * f64.sum (map (** 2) w)

entry value [n][d] (q: [d]f64) (p: [d]f64) (x: [n][d]f64) (y: [n]f64): f64 =
  let force q = vjp (potential x y) q 1
  let h = 0.02
  let (q, p) =
    loop (q, p) = (q, p) for _i < 20 do
      let p = map2 (\a g -> a - 0.5 * h * g) p (force q)
      let q = map2 (\a b -> a + h * b) q p
      in (q, map2 (\a g -> a - 0.5 * h * g) p (force q))
  in potential x y q + 0.5 * f64.sum (map (** 2) p)
