-- The other names of the prelude: map1, zip2, unzip2, reduce_by_index_3d, sized, manifest, trace, break.
-- ==
-- input { [1, 2] }
-- output { [2, 3] [1, 2] [2, 3] [[[1, 0]], [[0, 2]]] [1, 2] [1, 2] 1 [1, 2] }
-- input { empty([0]i32) }
-- output { empty([0]i32) empty([0]i32) empty([0]i32) [[[0, 0]], [[0, 0]]] empty([0]i32) empty([0]i32) 1 empty([0]i32) }
entry main [n] (xs: [n]i32) =
  let ys = map1 (+ 1) xs
  let (a, b) = unzip2 (zip2 xs ys)
  let cube = replicate 2 (replicate 1 (replicate 2 0))
  in ( ys
     , a
     , b
     , reduce_by_index_3d cube (+) 0 (map (\i -> (i, 0, i)) (iota n)) xs
     , sized n xs
     , manifest xs
     , trace 1i32
     , break xs
     )
