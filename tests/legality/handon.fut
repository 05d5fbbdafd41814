-- What must hold for an iteration to hand on what it computed: an entry for each condition.

-- The next iteration's power has another exponent than the last one's.
-- ==
-- entry: other_operand
-- input { 3i64 2.0 0.5 0.7 }
entry other_operand (n: i64) (c: f64) (x: f64) (y: f64) : (f64, f64) =
  loop (x, y) for _i < n do
    let y = y + x ** c
    let x = f64.abs (0.5 * y) + 0.1
    in (x, y - x ** (c + 1))

-- The exponent is the iteration's own.
-- ==
-- entry: own_operand
-- input { 3i64 0.5 0.7 }
entry own_operand (n: i64) (x: f64) (y: f64) : (f64, f64) =
  loop (x, y) for i < n do
    let k = f64.i64 i
    let y = y + x ** k
    let x = 0.1 * y
    in (x, y - x ** k)
