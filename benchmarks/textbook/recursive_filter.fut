-- A recursive filter of second order over a signal (Oppenheim and Schafer, 2009, 6.3): misfit.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [n] (c: [4]f64) (x: [n]f64) (y: [n]f64): f64 =
  let (_, _, loss) =
    loop (a, b, loss) = (0, 0, 0) for i < n do
      let v = c[0] * x[i] + (if i > 0 then c[1] * x[i - 1] else 0) - c[2] * a - c[3] * b
      in (v, a, loss + (v - y[i]) ** 2)
  in loss / f64.i64 n
