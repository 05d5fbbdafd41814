-- Walks of data-dependent lengths whose steps look up a table of numbers that are narrower than places.
def walk [m] (table: [m]f32) (x: f32) : f32 =
  (loop (y, k) = (x, 0i32) while k < 30 && f32.abs y < 4 do
     let i = i64.f32 (f32.abs y * 10) % m
     in (y + table[i] * f32.exp (-y * y) + 0.05, k + 1)).0

-- ==
-- entry: walked
-- input { [0.5f32, -0.25f32, 1.0f32] [0.0f32, 1.5f32, -2.0f32, 5.0f32] }
-- input { [0.5f32] empty([0]f32) }
-- output { empty([0]f32) }
entry walked [m] [n] (table: [m]f32) (xs: [n]f32) : [n]f32 = map (walk table) xs

-- ==
-- entry: gradient
-- input { [0.5f32, -0.25f32, 1.0f32] [0.0f32, 1.5f32, -2.0f32, 5.0f32] }
entry gradient [m] [n] (table: [m]f32) (xs: [n]f32) : ([m]f32, [n]f32) =
  vjp (\(t, x) -> f32.sum (map (walk t) x)) (table, xs) 1
