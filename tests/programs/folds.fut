-- foldl, foldr, iterate, iterate_while, iterate_until.
-- ==
-- input { [1, 2, 3] }
-- output { 123 321 80 128 64 [2, 4, 6] }
-- input { empty([0]i32) }
-- output { 0 0 80 128 64 empty([0]i32) }
entry main (xs: []i32) =
  ( foldl (\a x -> 10 * a + x) 0 xs
  , foldr (\x a -> 10 * a + x) 0 xs
  , iterate 4 (* 2) 5
  , iterate_while (< 100) (* 2) 1
  , iterate_until (> 50) (* 2) 1
  , iterate 1 (map (* 2)) xs
  )
