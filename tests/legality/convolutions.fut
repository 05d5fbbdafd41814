-- What becomes of sums of products at sums of iterations: an entry for each condition.
entry from_one [n] (k: [3]f64) (x: [n]f64) : []f64 =
  let at i = if i < 0 || i >= n then 0 else x[i]
  in tabulate n (\i -> reduce (+) 1 (tabulate 3 (\p -> k[p] * at (i + p - 1))))

entry irregular [n] (k: [n]f64) (x: [n]f64) : []f64 =
  let at i = if i < 0 || i >= n then 0 else x[i]
  in tabulate n (\i -> f64.sum (tabulate i (\p -> k[p] * at (i + p - 1))))

-- In range for the pairs of i + p and i that there are, not for others.
entry two_sums [n] (k: [3][n]f64) (x: [3]f64) : [n][n]f64 =
  let at i p = x[i64.max (i + p) 1 - i64.max i 1]
  in tabulate_2d n n (\i j -> f64.sum (tabulate 3 (\p -> at i p * k[p, j])))

-- Every other element is there.
entry holes [n] (k: [1][n]f64) (x: [n]f64) : [n][n]f64 =
  let at u = x[if u % 2 == 0 then u / 4 else -1]
  in tabulate_2d n n (\i j -> f64.sum (tabulate 1 (\p -> f64.sum (tabulate 1 (\q -> at (4 * i + 2 * p + 2 * q) * k[p, j])))))

entry strided [n][m] (k: [2]f64) (x: [n][m]f64) : [n][m]f64 =
  let y (x: [n][m]f64) = tabulate_2d (n / 2) (m - 1) (\i j ->
    f64.sum (tabulate 2 (\p -> f64.sum (tabulate 2 (\q -> k[p] * k[q] * x[2 * i + p, j + q])))))
  in vjp y x (tabulate_2d (n / 2) (m - 1) (\i j -> f64.i64 (i - 2 * j)))

entry diagonal [n] (k: [2]f64) (w: [n]f64) : [n]f64 =
  let y (w: [n]f64) =
    let x = tabulate_2d n (n + 1) (\i j -> w[i] * f64.i64 (1 + j))
    in tabulate n (\i -> f64.sum (tabulate 2 (\p -> k[p] * x[i, i + p])))
  in vjp y w (tabulate n (\i -> f64.i64 (1 + i)))

entry banded [n][m] (band: [n][3]f64) (x: [n][m]f64) : [n][m]f64 =
  let y (x: [n][m]f64) = tabulate_2d n m (\i j ->
    f64.sum (tabulate 3 (\p -> band[i, p] * (if i + p < n then x[i + p, j] else 0))))
  in vjp y x (tabulate_2d n m (\i j -> f64.i64 (i + j)))

-- Within, if the assertion holds.
entry asserted [n] (k: [3]f64) (x: [n]f64) : [n]f64 =
  tabulate n (\i -> assert (i + 2 < n) (f64.sum (tabulate 3 (\p -> k[p] * x[i + p]))))

-- The first element is there, and left out.
entry left_out [n] (k: [3]f64) (x: [n]f64) : []f64 =
  tabulate n (\i -> f64.sum (tabulate 3 (\p -> let u = i + p - 1 in if u < 1 || u >= n then 0 else k[p] * x[u])))

-- What is out of range has no term, whatever it would be multiplied by; steps are not known.
entry dilated [n] (k: [3]f64) (x: [n]f64) (d: i64) : ([3]f64, [n]f64) =
  let y (k: [3]f64) (x: [n]f64) = tabulate n (\i ->
    f64.sum (tabulate 3 (\p -> let u = i - p * d in if u < 0 || u >= n then 0 else k[p] * x[u])))
  in vjp (\(k, x) -> y k x) (k, x) (tabulate n (\i -> f64.i64 (1 + i)))

-- The same for all iterations, of which there are none; and one that is not the same.
entry asserted_of_none [n][o] (k: [o][3]f64) (x: [n]f64) : [][]f64 =
  tabulate (i64.max 0 (n - 500)) (\i ->
    map (\a -> assert (n > 1000) (f64.sum (tabulate 3 (\p -> a[p] * x[(i + p) % n])))) k)

entry asserted_of_each [n][o] (d: i64) (k: [o][3]f64) (x: [n]f64) : [][]f64 =
  tabulate (i64.max 0 (n - 2)) (\i ->
    map (\a -> assert (i != d) (f64.sum (tabulate 3 (\p -> a[p] * x[(i + p) % n])))) k)

-- Two sums at a stride: both move by one; and one along which the result goes.
entry twice_at_stride [n][o] (k: [o][2]f64) (x: [n]f64) : [n]f64 =
  let y (x: [n]f64) = tabulate_2d o (n / 2) (\a i ->
    f64.sum (tabulate 2 (\p -> f64.sum (tabulate 2 (\q ->
      let u = 2 * i + p + q in k[a, p] * k[a, q] * (if u < n then x[u] else 0))))))
  in vjp y x (tabulate_2d o (n / 2) (\a i -> f64.i64 (1 + a + i)))

entry stride_and_result [n][o] (k: [o][2][2]f64) (x: [n]f64) : [n]f64 =
  let y (x: [n]f64) = tabulate_3d o (n / 2) 2 (\a i j ->
    f64.sum (tabulate 2 (\p -> let u = 2 * i + j + 2 * p in k[a, j, p] * (if u < n then x[u] else 0))))
  in vjp y x (tabulate_3d o (n / 2) 2 (\a i j -> f64.i64 (1 + a + i + 3 * j)))
