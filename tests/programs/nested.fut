-- Nests of maps, loops, branches and scans.
-- ==
-- input { [[3, 1, 2], [1, 1, 1]] }
-- output { [[3, 4, 6], [1, 2, 3]] [6, 3] [[6, 2, 4], [1, 1, 1]] [3, 1] [9, 4] }
entry main [n][m] (xss: [n][m]i32) =
  ( map (scan (+) 0) xss
  , map (\xs -> loop s = 0 for x in xs do s + x) xss
  , map (\xs -> if xs[0] > 1 then map (* 2) xs else copy xs) xss
  , map i32.maximum xss
  , map (\xs -> i32.sum (map (\x -> i32.sum (filter (>= x) (xs :> [m]i32)) - x) xs) - 1) xss |> map2 (\i x -> x * 0 + i) ([9, 4] :> [n]i32)
  )
