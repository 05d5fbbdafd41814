-- Fitting hunters and prey (Lotka, 1925; Volterra, 1926) to observations, by Runge-Kutta steps.
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

entry value [m] (rates: [4]f64) (start: [2]f64) (seen: [m][2]f64): f64 =
  let f (x, y) = (rates[0] * x - rates[1] * x * y, rates[2] * x * y - rates[3] * y)
  let h = 0.001
  let step (x, y) =
    let (a1, b1) = f (x, y)
    let (a2, b2) = f (x + 0.5 * h * a1, y + 0.5 * h * b1)
    let (a3, b3) = f (x + 0.5 * h * a2, y + 0.5 * h * b2)
    let (a4, b4) = f (x + h * a3, y + h * b3)
    in (x + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), y + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4))
  let (_, loss) =
    loop ((x, y), loss) = ((start[0], start[1]), 0) for i < m do
      let (x, y) = loop s = (x, y) for _j < 100 do step s
      in ((x, y), loss + (x - seen[i, 0]) ** 2 + (y - seen[i, 1]) ** 2)
  in loss
