-- for, for-in and while; loops without initial values; arrays that grow; sizes that are kept.
-- ==
-- entry: counted
-- input { 5 } output { 10 120 }
entry counted (n: i32) =
  (loop s = 0 for i < n do s + i, loop p = 1 for i in 1...n do p * i)

-- ==
-- entry: over_elements
-- input { [1, 2, 3] [4, 5, 6] } output { 32 }
entry over_elements [n] (xs: [n]i32) (ys: [n]i32): i32 = loop s = 0 for (x, y) in zip xs ys do s + x * y

-- ==
-- entry: until
-- input { 27i64 } output { 111i64 }
entry until (n: i64): i64 =
  (loop (x, steps) = (n, 0) while x != 1 do
     (if x % 2 == 0 then x / 2 else 3 * x + 1, steps + 1)).1

-- ==
-- entry: from_the_environment
-- input { 3 } output { 24 }
entry from_the_environment (x: i32): i32 = loop x for _i < 3 do x * 2

-- ==
-- entry: growing
-- input { 3 } output { [1, 1, 1, 1, 1, 1, 1, 1] }
entry growing (n: i32): []i32 = loop xs = [1] for _i < n do xs ++ xs

-- ==
-- entry: in_place
-- input { 5i64 } output { [0i64, 1i64, 1i64, 2i64, 3i64] }
entry in_place (n: i64): [n]i64 =
  loop fib = iota n for i in 2..<n do fib with [i] = fib[i - 1] + fib[i - 2]

-- ==
-- entry: never
-- input { [7] } output { [7] 1.5 }
entry never (xs: []i32) = (loop ys = xs for _i < 0 do ys ++ ys, loop x = 1.5 while false do x * 2)

-- ==
-- entry: any_counter
-- input { 3u8 } output { 3u8 }
entry any_counter (n: u8): u8 = loop s = 0 for i < n do s + i

-- ==
-- entry: nested
-- input { 3 } output { 5 }
entry nested (n: i32): i32 = loop s = 0 for i < n do loop t = s for j < n do if j <= i then t + j + 1 - i else t + 1

-- The loop's annotation is the first to say that a row is an array.
-- ==
-- entry: annotated
-- input { [[1.0, 2.0], [3.0, 4.0]] } output { [6.0, 8.0] }
entry annotated [n] (w: [n][]f64): [n]f64 =
  map (\v ->
    let (q, s) = loop (q: []f64, s: f64) = (v, 1) for i < 2 do (if i % 2 == 0 then q ++ [s] else q[1:], s + 1)
    in f64.sum q + s) w

-- The loop's body is.
-- ==
-- entry: used_as_array
-- input { [[1.0, 2.0], [3.0, 4.0]] } output { [2.0, 4.0] [6.0, 8.0] [12.0, 28.0] }
entry used_as_array [n] (w: [n][]f64): ([n]f64, [n]f64, [n]f64) =
  (map (\v -> f64.sum (loop q = v for _i < 1 do q[1:])) w,
   map (\v -> let (q, s) = loop (q, s) = (v, 1) for i < 2 do (if i % 2 == 0 then q ++ [s] else q[1:], s + 1)
              in f64.sum q + s) w,
   map (\v -> f64.sum (loop q = v for _i < 2 do loop r = q for _j < 1 do r ++ r)) w)
