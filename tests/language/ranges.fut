-- Ranges: up, down, strided, inclusive and exclusive, and those that are errors.
-- ==
-- entry: forms
-- input { 1i64 5i64 }
-- output { [1i64, 2i64, 3i64, 4i64, 5i64] [1i64, 2i64, 3i64, 4i64] [5i64, 4i64, 3i64, 2i64] [1i64, 3i64, 5i64] [1i64, 3i64] [5i64, 3i64] }
entry forms (a: i64) (b: i64) = (a...b, a..<b, b..>a, a..a + 2...b, a..a + 2..<b, b..b - 2..>a)

-- ==
-- entry: types
-- input { 3u8 }
-- output { [1u8, 2u8, 3u8] [0i16, 1i16] }
entry types (x: u8) = (1...x, 0i16..<2)

-- ==
-- entry: known_size
-- input { 3i64 } output { [0i64, 1i64, 2i64] [1i64, 2i64, 3i64] 3i64 }
entry known_size (n: i64): ([n]i64, [n]i64, i64) = (0..<n, 1..2...n, length (0..1..<n))

-- ==
-- entry: upto
-- input { 2i64 2i64 } output { empty([0]i64) }
-- input { 3i64 2i64 } error: .
entry upto (a: i64) (b: i64): []i64 = a..<b

-- ==
-- entry: stride
-- input { 0i64 2i64 5i64 } output { [0i64, 2i64, 4i64] }
-- input { 1i64 1i64 5i64 } error: .
-- input { 0i64 -1i64 5i64 } error: .
entry stride (a: i64) (b: i64) (c: i64): []i64 = a..b...c
