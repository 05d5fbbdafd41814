-- Stockham's fast Fourier transform as loops that fill an array of pairs, and the gradient of a spectrum.
type c = (f64, f64)
def (+|) (a: c) (b: c): c = (a.0 + b.0, a.1 + b.1)
def (-|) (a: c) (b: c): c = (a.0 - b.0, a.1 - b.1)
def (*|) (a: c) (b: c): c = (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
def root (k: i64) (n: i64): c = let t = -2 * f64.pi * f64.i64 k / f64.i64 n in (f64.cos t, f64.sin t)
def stockham [n] (x: [n]c): [n]c =
  let (x, _, _) = loop (x, l, m) = (x, n / 2, 1) while l >= 1 do
    let y = loop y = replicate n (0, 0) for j < l do
      loop y for k < m do
        let a = x[k + j * m] let b = x[k + j * m + l * m]
        let y = y with [k + 2 * j * m] = a +| b
        in y with [k + 2 * j * m + m] = root j (2 * l) *| (a -| b)
    in (y, l / 2, m * 2)
  in x
def spectrum [n] (f: [n]c -> [n]c) (x: [n]f64): f64 =
  f64.sum (map (\(a, b) -> f64.sqrt (a * a + b * b + 0.1)) (f (map (\a -> (a, 0)) x)))

-- ==
-- entry: loops
-- input { [1.0, 0.0, 0.0, 0.0] } output { 4.195235392680606 [3.813850356982369, 0.0, 0.0, 0.0] }
-- input { [2.0] } output { 2.024845673131659 [0.9877295966495896] }
-- input { empty([0]f64) } output { 0.0 empty([0]f64) }
entry loops [n] (x: [n]f64): (f64, [n]f64) = vjp2 (spectrum stockham) x 1
