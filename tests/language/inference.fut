-- Types that are not written.
def compute x y = x * y + 1.5
def both f (x, y) = (f x, f y)
def count xs = length xs + 1

-- ==
-- entry: main
-- input { 2.0 [1, 2] }
-- output { 5.5 3 4 3i64 }
entry main x (ys: []i32) =
  let (a, b) = both (\z -> z + 2) (1, 2)
  in (compute x 2, a, b, count ys)

-- ==
-- entry: numbers_take_the_type_of_their_use
-- input { 2u8 } output { 3u8 [2.5f32] }
entry numbers_take_the_type_of_their_use x =
  let k = 1
  let xs = [1.5]
  in (x + k : u8, map (+ 1) xs : []f32)
