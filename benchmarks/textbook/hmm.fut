-- Log-likelihood of a hidden Markov model by the forward algorithm (Rabiner, 1989).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def logsumexp [m] (v: [m]f64): f64 =
  let top = f64.maximum v
  in top + f64.log (f64.sum (map (\u -> f64.exp (u - top)) v))

entry value [s][o][t] (start: [s]f64) (move: [s][s]f64) (emit: [s][o]f64) (seen: [t]i64): f64 =
  let normal v = let z = logsumexp v in map (\u -> u - z) v
  let (start, move, emit) = (normal start, map normal move, map normal emit)
  let first = map2 (\p e -> p + e[seen[0]]) start emit
  let final =
    loop alpha = first for i in 1...t - 1 do
      map2 (\into e -> logsumexp (map2 (+) alpha into) + e[seen[i]]) (transpose move) emit
  in -logsumexp final
