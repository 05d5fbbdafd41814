-- The idiom of expansion: each element becomes as many as it says; segmented scans, histograms of what comes out.
def segscan [n] 't (op: t -> t -> t) (ne: t) (flags: [n]bool) (as: [n]t) : [n]t =
  (unzip (scan (\(x_flag, x) (y_flag, y) -> (x_flag || y_flag, if y_flag then y else x `op` y)) (false, ne) (zip flags as))).1
def replicated_iota [n] (reps: [n]i64) : []i64 =
  let s1 = scan (+) 0 reps
  let s2 = map (\i -> if i == 0 then 0 else s1[i - 1]) (iota n)
  let tmp = reduce_by_index (replicate (if n == 0 then 0 else s1[n - 1]) 0) i64.max 0 s2 (iota n)
  let flags = map (> 0) tmp
  in segscan (+) 0 flags tmp
def expand 'a 'b (sz: a -> i64) (get: a -> i64 -> b) (arr: []a) : []b =
  let szs = map sz arr
  let idxs = replicated_iota szs
  let iotas = segscan (+) 0 (map2 (!=) idxs (rotate (-1) idxs)) (map (const 1) idxs) |> map (\x -> x - 1)
  in map2 (\i j -> get arr[i] j) idxs iotas
-- ==
-- input { [2i64, 0i64, 3i64, 1i64] } output { [20i64, 21i64, 30i64, 31i64, 32i64, 10i64] [2.0, 0.0, 3.0, 1.0] }
-- input { [1i64] } output { [10i64] [1.0] }
entry main [n] (xs: [n]i64) =
  let where = replicated_iota xs
  in (expand id (\x j -> x * 10 + j) xs, reduce_by_index (replicate n 0f64) (+) 0 where (map (const 1) where))
