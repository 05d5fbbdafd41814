-- Results of unknown size passed on: mapped, zipped with themselves, filtered again, of rows and of pairs.
-- ==
-- input { [1, 2, 3, 4, 5, 6] }
-- output { [4, 16, 36] [16, 36] 56 [[2, 2], [4, 4], [6, 6]] [4, 6] [false, false] }
entry main (xs: []i32) =
  let even = filter (\x -> x % 2 == 0) xs
  let squares = map2 (*) even even
  let (ys, bs) = unzip (filter (\(x, _) -> x > 3) (zip even (map (> 9) even)))
  in ( squares
     , filter (> 4) squares
     , i32.sum squares
     , map (replicate 2) even
     , ys
     , bs
     )
