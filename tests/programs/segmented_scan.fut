-- The segmented sum: a scan over (flag, value) pairs.
-- ==
-- input { [true, false, true, false, false] [1, 2, 3, 4, 5] }
-- output { [1, 3, 3, 7, 12] }
def segsum [n] (flags: [n]bool) (xs: [n]i32): [n]i32 =
  zip flags xs
  |> scan (\(f, x) (g, y) -> (f || g, if g then y else x + y)) (false, 0)
  |> unzip
  |> (.1)

entry main [n] (flags: [n]bool) (xs: [n]i32): [n]i32 = segsum flags xs
