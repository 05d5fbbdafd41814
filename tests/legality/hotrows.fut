-- Rows that are zero but at one place: who reads them, and how (tests/rewrite/test_hot_rows.py).
def hot (m: i64) (c: i64): [m]f64 = map (\j -> if j == c then 1.5 else 0) (iota m)

-- Labels, some of which are no class.
entry product [n] [m] [d] (cs: [n]i64) (w: [m][d]f64): [n][d]f64 =
  let h = map (hot m) cs
  in map (\row -> map (\col -> f64.sum (map2 (*) row col)) (transpose w)) h
entry entropy [n] [m] (cs: [n]i64) (w: [n][m]f64): f64 =
  let h = map (\c -> map (\j -> f64.bool (j == c)) (iota m)) cs
  let logs = map (\row -> let z = f64.log (f64.sum (map f64.exp row)) in map (\x -> x - z) row) w
  in -f64.sum (map2 (\a b -> f64.sum (map2 (*) a b)) h logs)
entry weighted [n] [m] (cs: [n]i64) (w: [n][m]f64): [n]f64 =
  let h = map2 (\c row -> let s = f64.sum row in map (\x -> x * s) (hot m c)) cs w
  in map2 (\a b -> f64.sum (map2 (\x y -> f64.sin (x + y)) a b)) h w
-- Read more than once, and by two maps.
entry twice [n] [m] (cs: [n]i64) (w: [n][m]f64): ([n]f64, [n][m]f64) =
  let h = map (hot m) cs
  in (map2 (\a b -> f64.sum (map2 (*) a b)) h w, map2 (map2 (+)) h w)
entry inner [n] [m] (cs: [n]i64) (w: [n][m]f64): [n][m]f64 =
  let h = map (hot m) cs
  in map2 (\a b -> map2 (\x y -> x * y + a[0]) a b) h w
-- The matrix is wanted itself; or its columns; or another element than the map's own.
entry kept [n] [m] (cs: [n]i64) (w: [n][m]f64): ([n][m]f64, [n][m]f64) =
  let h = map (hot m) cs
  in (map2 (map2 (*)) h w, h)
entry columns [n] [m] (cs: [n]i64) (w: [n][m]f64): ([m]f64, [n]f64) =
  let h = map (hot m) cs
  in (map f64.sum (transpose h), map2 (\a b -> f64.sum (map2 (*) a b)) h w)
entry beside [n] [m] (cs: [n]i64) (w: [n][m]f64): [n]f64 =
  let h = map (hot m) cs
  in map2 (\a i -> f64.sum (map2 (*) a h[i])) h (iota n)
-- A row that its reader overwrites.
entry changed [n] [m] (cs: [n]i64) (w: [n][m]f64): ([n]f64, [n]f64) =
  let h = map (hot m) cs
  let first = map2 (\a b -> let c = copy a with [0] = b[0] in f64.sum (scan (+) 0 c)) h w
  in (first, map2 (\a b -> f64.sum (map2 (*) a b)) h w)
-- Inside another map.
entry batch [n] [m] (cs: [n]i64) (w: [n][m]f64): [3][n]f64 =
  map (\k -> let h = map (\c -> hot m (c + k)) cs
             in map2 (\a b -> f64.sum (map2 (*) a b)) h w) (iota 3)
-- Adjoints of minima, whose rows multiply a matrix.
def cost [n] [m] [d] (ps: [n][d]f64) (cs: [m][d]f64): f64 =
  let products = map (\p -> map (\c -> f64.sum (map2 (*) p c)) cs) ps
  let squares = map (\c -> f64.sum (map (\x -> x * x) c)) cs
  let distances = map (map2 (\s p -> s - 2 * p) squares) products
  in f64.sum (map f64.minimum distances)
entry clusters [n] [m] [d] (ps: [n][d]f64) (cs: [m][d]f64): f64 = cost ps cs
entry adjoints [n] [m] [d] (ps: [n][d]f64) (cs: [m][d]f64): ([n][d]f64, [m][d]f64) =
  vjp (\(ps, cs) -> cost ps cs) (ps, cs) 1
