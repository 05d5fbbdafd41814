-- Programs that tempt additions to neighbouring places to be gathered place by place.

-- Both axes move with one of the two maps: all iterations of the other one add to one place.
entry diagonal [n] (x: [n][n]f64) (a: [n]f64): [n][n]f64 =
  vjp (\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) n (\i j -> f64.exp (a[j] * x[i + 1, i]) * x[i + 2, i])))) x 1

-- Whether an iteration adds hangs on what it reads.
entry chosen [n][m] (x: [n][m]f64) (a: [n][m]f64): [n][m]f64 =
  vjp (\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) m (\i j ->
    (if a[i, j] > 0 then x[i + 1, j] else 0) + 2 * x[i + 2, j])))) x 1

-- Places around an end that is not the axis' one, of which the last is no neighbour.
entry around [n] (x: [n]f64): [n]f64 =
  loop x for _k < 2 do vjp (\x -> f64.sum (tabulate n (\i ->
    let m = i64.max 1 (n - 1) in f64.sin x[(i + 1) % m] * x[(i + m - 1) % m]))) x 1

-- Fewer iterations than places.
entry part [n] (x: [n]f64): [n]f64 =
  loop x for _k < 2 do vjp (\x -> f64.sum (tabulate (n - n / 3) (\i -> f64.sin x[(i + 1) % n] * x[(i + n - 1) % n]))) x 1

-- Sums beyond 64 bits, whose remainders are not those of the terms.
entry far (x: [10]f64): [10]f64 =
  loop x for _k < 2 do vjp (\x -> f64.sum (tabulate 10 (\i ->
    f64.sin x[(i + 9223372036854775807) % 10] * x[(i + 9223372036854775806) % 10]))) x 1

-- At the end the place is the iteration's own.
entry held [n] (x: [n]f64): [n]f64 =
  loop x for _k < 2 do vjp (\x -> f64.sum (tabulate n (\i ->
    f64.sin x[if i == n - 1 then i else i + 1] * x[if i == 0 then i else i - 1]))) x 1

-- Places that are cut off before the end, where other iterations add, too.
entry cut [n] (x: [n]f64): [n]f64 =
  loop x for _k < 2 do vjp (\x -> f64.sum (tabulate n (\i ->
    f64.sin x[i64.max 0 (i64.min (n - 2) (i + 1))] * x[i64.max 0 (i - 1)]))) x 1

-- More iterations than places, but as many where data say so.
entry widened [n] (x: [n][n]f64) (a: [n]f64): [n][n]f64 =
  vjp (\x ->
    let m = if a[0] > 0 then n + 2 else n
    let at i j = x[i64.max 0 (i64.min (n - 1) (i - 1)), i64.max 0 (i64.min (n - 1) (j - 1))]
    in f64.sum (map f64.sum (tabulate_2d m m (\i j -> f64.sin (at i j))))) x 1
