-- Records with the same fields in another order are of the same type.
-- ==
-- entry: looped
-- input { 3i32 2f32 }
-- output { 3i32 16f32 [16f32, 17f32] }

type state = {step: i32, scale: f32, values: [2]f32}

def turn (s: state) : state =
  let scale = s.scale * 2
  in {values = map (+ scale) (replicate 2 0), scale, step = s.step + 1}

entry looped (n: i32) (x: f32) =
  let s = iterate n turn {scale = x, values = [0, 0], step = 0}
  let r = if n > 100 then s else {values = s.values with [1] = 17, step = s.step, scale = s.scale}
  in (r.step, r.scale, r.values)

-- ==
-- entry: arrays
-- input { [1i32, 2i32] }
-- output { [1i32, 2i32] [10i32, 20i32] }

entry arrays (xs: []i32) =
  let rs = map (\x -> {b = x * 10, a = x}) xs
  let more: [](i32, {a: i32, b: i32}) = zip xs rs
  in unzip (map (\(_, {a, b}) -> (a, b)) more)

-- ==
-- entry: shown
-- input { 1i32 2i32 }
-- output { 1i32 2i32 }

entry shown (b: i32) (a: i32) : {b: i32, a: i32} = {a, b}
