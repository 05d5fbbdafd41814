-- Derivatives of reduce_by_index with an operator that has no rule of its own: elements are sorted by bin.
-- Products of a + b e, where e * e = 0: commutative, on pairs.

def times (a: f64, x: f64) (b: f64, y: f64) : (f64, f64) = (a * b, x * b + y * a)

def products [k][n] (start: [k](f64, f64)) (bins: [n]i64) (values: [n](f64, f64)) : [k](f64, f64) =
  reduce_by_index (copy start) times (1, 0) bins values

def weighted [k] (w: [k]f64) (made: [k](f64, f64)) : f64 = f64.sum (map2 (\c (a, x) -> c * a + x) w made)

-- ==
-- entry: primal
-- input { [1f64, 2f64, 1f64] [0i64, 2i64, -1i64, 0i64, 3i64, 0i64] [2f64, 3f64, 5f64, 7f64, 11f64, 4f64] }
-- output { [56f64, 2f64, 3f64] [0f64, 0f64, 9f64] }
entry primal [k][n] (start: [k]f64) (bins: [n]i64) (values: [n]f64) : ([k]f64, [k]f64) =
  unzip (products (map (\s -> (s, 0)) start) bins (map2 (\v i -> (v, if i == 2 then v * v else 0)) values bins))

-- The product of the others in the bin, what it held included; each is worth its bin's weight.
-- ==
-- entry: of_values
-- input { [10f64, 1f64, 100f64] [1f64, 2f64, 1f64] [0i64, 2i64, -1i64, 0i64, 3i64, 0i64] [2f64, 3f64, 5f64, 7f64, 11f64, 4f64] }
-- output { [280f64, 100f64, 0f64, 80f64, 0f64, 140f64] [28f64, 1f64, 0f64, 8f64, 0f64, 14f64] }
-- input { [1f64] [1f64] empty([0]i64) empty([0]f64) }
-- output { empty([0]f64) empty([0]f64) }
entry of_values [k][n] (w: [k]f64) (start: [k]f64) (bins: [n]i64) (values: [n]f64) : ([n]f64, [n]f64) =
  let zeros = replicate n 0f64
  in vjp (\(as, xs) -> weighted w (products (map (\s -> (s, 0)) start) bins (zip as xs))) (values, zeros) 1

-- ==
-- entry: of_start
-- input { [10f64, 1f64, 100f64] [1f64, 2f64, 1f64] [0i64, 2i64, -1i64, 0i64, 3i64, 0i64] [2f64, 3f64, 5f64, 7f64, 11f64, 4f64] }
-- output { [560f64, 1f64, 300f64] [56f64, 1f64, 3f64] }
entry of_start [k][n] (w: [k]f64) (start: [k]f64) (bins: [n]i64) (values: [n]f64) : ([k]f64, [k]f64) =
  let zeros = map (const 0f64) start
  in vjp (\(as, xs) -> weighted w (products (zip as xs) bins (map (\v -> (v, 0)) values))) (start, zeros) 1
