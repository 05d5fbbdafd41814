-- Loops whose arrays change size from iteration to iteration.
-- ==
-- input { 3i64 }
-- output { [1, 1, 1, 1, 1, 1, 1, 1] [0i64, 0i64, 1i64, 0i64, 1i64, 2i64] [1, 2, 4] }
-- input { 0i64 }
-- output { [1] empty([0]i64) [1, 2, 3, 4, 5] }
entry main (n: i64) =
  let doubled = loop xs = [1] for _i < n do concat xs xs
  let grown = loop (xs: []i64) = [] for i < n do xs ++ iota (i + 1)
  let sieved = loop [m] (xs: [m]i32) = [1, 2, 3, 4, 5] for i < n do
    if i == 0 then filter (\x -> x != 3) xs else if i == 1 then filter (\x -> x != 5) xs else xs
  in (doubled, grown, sieved)
