-- Arrays of records of arrays, passed through functions, filtered, updated and scattered.
-- ==
-- input { [1i64, 2i64, 3i64] }
-- output { [[2i64, 3i64], [3i64, 4i64]] [true, true] [[1i64, 2i64], [0i64, 0i64], [3i64, 4i64]] 9i64 }
type cell = {v: [2]i64, on: bool}

def make (i: i64): cell = {v = [i, i + 1], on = i > 1}

def total [n] (cs: [n]cell): i64 = i64.sum (map (\c -> i64.sum c.v) (filter (\c -> c.on && c.v[0] < 3) cs))

entry main (xs: [3]i64) =
  let cells = map make xs
  let kept = filter (.on) cells
  let changed = copy cells with [1] = {v = [0, 0], on = false}
  in (map (.v) kept, map (.on) kept, map (.v) changed, total cells + 4)
