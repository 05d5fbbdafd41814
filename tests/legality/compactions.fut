-- Folds of what a filter keeps, by `filter` and written out, and what is none: `optimise/compactions.py`.

entry moments [n] (xs: [n]f64) =
  let kept = filter (> 0.2) (map (\x -> 2 * x - 0.1) xs)
  let count = f64.i64 (length kept)
  let mean = f64.sum kept / count
  in (mean, f64.sum (map (\v -> (v - mean) ** 2) kept) / count)
entry extrema [n] (xs: [n]f64) = let kept = filter (> 0) xs in (f64.minimum kept, f64.maximum kept, f64.product kept)
entry counts [n] (is: [n]i64) = (length (filter (\i -> i % 2 == 0) is), all (> 1) (filter (> 1) is), i64.sum (filter (> 2) is))
entry pairs [n] (xs: [n]f64) (is: [n]i64) =
  let kept = filter (\(x, i) -> x > 0 && i > 0) (zip xs is) in f64.sum (map (\(x, i) -> f64.log x / f64.i64 i) kept)
entry fails [n] (is: [n]i64) = i64.sum (map (\i -> 12 / i) (filter (!= 0) is))
entry divides [n] (is: [n]i64) = i64.sum (map (\i -> 12 / (i - 2)) (filter (!= 0) is))
entry slopes [n] (xs: [n]f64) = vjp (\xs -> (f64.sum (map f64.sqrt (filter (> 0) (map (\x -> x - 0.25) xs))))) xs 1

-- Its own compactions.
def compact [n] (cs: [n]bool) (ones: [n]i64) (off: i64) (more: i64) (xs: [n]f64) =
  let ends = scan (+) 0 ones
  let k = if n == 0 then 0 else ends[n - 1]
  let is = map2 (\c e -> if c then e - off else -1) cs ends
  in scatter (replicate (k + more) 7.0) is xs
entry own [n] (xs: [n]f64) =
  let cs = map (> 0) xs in f64.sum (compact cs (map (\c -> if c then 1 else 0) cs) 1 0 xs)
entry others_counted [n] (xs: [n]f64) =
  let cs = map (> 0) xs in f64.sum (compact cs (map (\c -> if c then 0 else 1) cs) 1 0 xs)
entry two_apart [n] (xs: [n]f64) =
  let cs = map (> 0) xs in f64.sum (compact cs (map (\c -> if c then 1 else 0) cs) 2 0 xs)
entry one_more [n] (xs: [n]f64) =
  let cs = map (> 0) xs in f64.sum (compact cs (map (\c -> if c then 1 else 0) cs) 1 1 xs)
entry not_the_last [n] (xs: [n]f64) =
  let cs = map (> 0) xs
  let ends = scan (+) 0 (map i64.bool cs)
  let k = if n == 0 then 0 else ends[n / 2]
  let is = map2 (\c e -> if c then e - 1 else -1) cs ends
  in f64.sum (scatter (replicate k 7.0) is xs)
entry up_to_half [n] (is: [n]i64) = let ends = scan (+) 0 is in if n == 0 then 0 else ends[n / 2]
entry last_of_sums [n] (is: [n]i64) = let ends = scan (+) 0 is in if n == 0 then 0 else ends[n - 1]
entry by_place [n] (xs: [n]f64) =
  let kept = filter (> 0) xs in f64.sum (map2 (\x i -> x * f64.i64 i) kept (indices kept))
entry overwritten [n] (xs: [n]f64) =
  let ys = copy xs
  let kept = filter (> 0) ys
  let zs = if n > 0 then ys with [0] = 100 else ys
  in (f64.sum kept, zs)
entry returned [n] (xs: [n]f64) = let kept = filter (> 0) xs in (f64.sum kept, kept)
entry in_maps [n] (xs: [n]f64) = map (\t -> f64.sum (map (* t) (filter (> t) xs))) xs
entry overwritten_sums [n] (xs: [n]i64) =
  let ys = copy xs
  let ends = scan (+) 0 ys
  let zs = if n > 1 then ys with [0] = 100 else ys
  in ((if n == 0 then 0 else ends[n - 1]), zs)
