-- Holes take the type that their place asks for; evaluating one is an error.
-- ==
-- entry: scalar
-- input { true } error: Reached hole of type: i32
-- input { false } output { 3 }
entry scalar (b: bool): i32 = if b then ??? else 3

-- ==
-- entry: function
-- input { [1i32] } error: Reached hole of type: i32
-- input { empty([0]i32) } output { empty([0]i32) }
entry function (xs: []i32): []i32 = map ??? xs

-- ==
-- entry: record
-- input { 1i32 } error: Reached hole of type: .a: i32, b: 
entry record (x: i32) = let r: {a: i32, b: [2]f32} = ??? in r.a + x
