-- Ranges that cannot be counted are errors.
-- ==
-- input { 0 1 -1 } error: .*
-- input { 0 0 5 } error: .*
-- input { 0 -1 5 } error: .*
-- input { 0 2 5 } output { [0, 2, 4] }
entry main (a: i32) (b: i32) (c: i32) = a..b..<c
