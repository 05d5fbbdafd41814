-- Pipes, composition, flip, curry, uncurry, const, id, sections, backticks, projections as functions.
-- ==
-- input { [1, 2, 3] }
-- output { 12 12 [3, 5, 7] [4, 6, 8] 7 5 6 [9, 9, 9] [1, 2, 3] [0, 1, 2] [9, 8, 7] 8 [2, 3] }
def twice f x = f (f x)

def add (x: i32) (y: i32) = x + y

entry main (xs: [3]i32) =
  ( xs |> map (* 2) |> i32.sum
  , i32.sum <| map (* 2) xs
  , map ((* 2) >-> (+ 1)) xs
  , map ((* 2) <-< (+ 1)) xs
  , flip (-) 3 10
  , curry (\(a, b) -> a + b) 2 3
  , uncurry (*) (2, 3)
  , map (const 9) xs
  , map id xs
  , map (\x -> x - 1) xs
  , map (10 -) xs
  , twice (`add` 3) 2
  , map (.1) [(1, 2), (2, 3i32)]
  )
