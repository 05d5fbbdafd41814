-- assert, and typed holes that are not reached.
-- ==
-- entry: positive
-- input { 2 } output { 4 }
-- input { -1 } error: x > 0
entry positive (x: i32): i32 = let y = assert (x > 0) (x * x) in y

-- ==
-- entry: in_map
-- input { [1, 2] } output { [1, 2] }
-- input { [1, 0] } error: x > 0
entry in_map (xs: []i32): []i32 = map (\x -> assert (x > 0) x) xs

-- ==
-- entry: hole
-- input { 1 } output { 1 }
entry hole (x: i32): i32 = if x > 0 then x else ???
