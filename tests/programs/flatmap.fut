-- Maps whose elements yield arrays of different sizes.
-- ==
-- entry: repeats
-- input { [0i64, 2i64, 1i64] [5i32, 10i32, 20i32] }
-- output { [0i64, 2i64, 1i64] [true, false, true] [0i64, 0i64, 2i64] [10i32, 11i32, 20i32] [5i32, 10i32, 20i32] }
-- input { empty([0]i64) empty([0]i32) }
-- output { empty([0]i64) empty([0]bool) empty([0]i64) empty([0]i32) empty([0]i32) }
entry repeats (ks: []i64) (xs: []i32) =
  flatmap (\(k, x) -> (map (\i -> x + i32.i64 i) (iota k), x)) (zip ks xs)

-- Rows of pairs, and a function that is not written in place.
-- ==
-- entry: rows
-- input { [3i64, 0i64, 1i64] }
-- output { [[3i64, 3i64], [3i64, 3i64], [3i64, 3i64], [1i64, 1i64]] [0i32, 1i32, 2i32, 0i32] }
def both (k: i64): ?[m].[m]([2]i64, i32) = map (\i -> (rep k, i32.i64 i)) (iota k)
entry rows (ks: []i64) = let (_, _, _, data) = flatmap' both ks in unzip data

-- Inside a map, and one in another.
-- ==
-- entry: nested
-- input { [[2i64, 3i64], [1i64, 4i64]] }
-- output { [[3i64, 6i64], [1i64, 10i64]] [9i64, 11i64] 20i64 }
entry nested (kss: [][]i64) =
  let inner ks = flatmap (\k -> let r = map (+ 1) (iota k) in (r, i64.sum r)) ks
  let (sums, totals) =
    unzip (map (\ks -> let (_, _, _, data, sums) = inner ks in (sums, i64.sum data)) kss)
  let (_, _, _, all) =
    flatmap' (\ks -> let (_, _, _, data, _) = inner ks in filter (> 0) data) kss
  in (sums, totals, i64.sum all)

-- ==
-- entry: gradient
-- input { [2i64, 0i64, 1i64] [3.0, 4.0, 5.0] }
-- output { [12.0, 0.0, 10.0] }
entry gradient [n] (ks: [n]i64) (xs: [n]f64) =
  let f (xs: [n]f64) =
    let (_, _, _, data) = flatmap' (\(k, x) -> replicate k (x * x)) (zip ks xs)
    in f64.sum data
  in vjp f xs 1
