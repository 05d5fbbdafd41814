-- Soft dynamic time warping of a batch of series (Cuturi and Blondel, 2017).
-- Everyday program: written from the textbook, as a newcomer writes it. Never rewritten for speed.

def softmin (a: f64) (b: f64) (c: f64): f64 =
  let m = f64.min a (f64.min b c)
  in m - f64.log (f64.exp (m - a) + f64.exp (m - b) + f64.exp (m - c))

def soft_dtw [n][m] (a: [n]f64) (b: [m]f64): f64 =
  let big = 1e10
  let first = replicate (m + 1) big with [0] = 0
  let final =
    loop above = first for i < n do
      let row = replicate (m + 1) big
      in loop row for j < m do
           row with [j + 1] = (a[i] - b[j]) ** 2 + softmin row[j] above[j] above[j + 1]
  in final[m]

entry value [k][n][m] (a: [k][n]f64) (b: [k][m]f64): f64 = f64.sum (map2 soft_dtw a b)
