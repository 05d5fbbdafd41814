-- Holes take the type that their place asks for; evaluating one is an error.
-- ==
-- entry: scalar
-- input { true } error: Reached a hole
-- input { false } output { 3 }
entry scalar (b: bool): i32 = if b then ??? else 3

-- ==
-- entry: function
-- input { [1i32] } error: Reached a hole
-- input { empty([0]i32) } output { empty([0]i32) }
entry function (xs: []i32): []i32 = map ??? xs

-- ==
-- entry: record
-- input { 1i32 } error: Reached a hole
entry record (x: i32) = let r: {a: i32, b: [2]f32} = ??? in r.a + x
