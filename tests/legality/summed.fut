-- Updates that are sums on devices, and maps that are distributed for that: an entry for each condition.
type~ acc [n] = intrinsics.acc ([n]f64)

def put [n] (a: *acc [n]) (i: i64) (v: f64) : *acc [n] = intrinsics.acc_write a i v

entry varying [n] (xs: [n]f64) : [3]f64 =
  let f (a: *acc [3]) (i: i64, x: f64) = put a (i % 4) (x * x)
  in intrinsics.hist_stream (replicate 3 1) (+) 0 f (zip (indices xs) xs)

entry both [n] (xs: [n]f64) : [3]f64 =
  let f (a: *acc [3]) (x: f64) = put (put a 0 (x * x)) 2 (f64.sin x)
  in intrinsics.hist_stream (replicate 3 1) (+) 0 f xs

entry guarded [n][m] (xs: [n]f64) (ys: [m]f64) : [m]f64 =
  let f (a: *acc [m]) (x: f64) =
    let b = assert (x < 0.5) (x * x)
    in loop a for j < m do put a j (b * ys[j])
  in intrinsics.hist_stream (replicate m 1) (+) 0 f xs

entry divided [n][m] (xs: [n]f64) (ys: [m]f64) (k: i64) : [m]f64 =
  let f (a: *acc [m]) (x: f64) = loop a for j < m do put a ((j + 7) / k) (x * ys[j])
  in intrinsics.hist_stream (replicate m 1) (+) 0 f xs

entry later [n][m][k] (xs: [n][m]f64) (ys: [k]f64) (cs: [n]f64) : [n]f64 =
  map2 (\x c -> let s = f64.sum (map (\v -> f64.maximum (map (* v) ys)) x)
               let t = f64.maximum (map (\y -> f64.sin (y * c)) ys)
               in f64.cos (s * t) + f64.sin s) xs cs
