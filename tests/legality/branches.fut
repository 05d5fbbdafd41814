-- Programs that find it if a branch writes its value over an array that is still needed.
-- The array that one branch returns is read afterwards.
entry old_read_later (k: i64) (s: f64): ([4]f64, f64) =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  let y = if k > 4 then x else map (\i -> f64.cos (f64.i64 i * s)) (iota 4)
  in (y, x[k % 4])
-- It is another result, of the other branch.
entry other_result (k: i64) (s: f64): ([4]f64, [4]f64) =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  let y = map (\i -> f64.cos (f64.i64 i * s)) (iota 4)
  in if k > 4 then (x, y) else (y, x)
entry exchanged (n: i64) (s: f64): ([4]f64, [4]f64) =
  loop (x, y) = (replicate 4 s, replicate 4 (s + 1)) for i < n do
    if i % 3 == 1 then (copy y with [i % 4] = s, x) else (x, copy y with [1] = f64.i64 i)
-- Each branch returns one array twice.
entry both_ways (k: i64) (s: f64): ([4]f64, [4]f64, [4]f64) =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  let y = map (\i -> f64.cos (f64.i64 i * s)) (iota 4)
  in if k > 4 then (x, x, y) else (y, copy x with [1] = 2, x)
-- The other branch's value is read from a part of it, in another order.
entry part_of_it (k: i64) (s: f64): [4]f64 =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  in if k > 4 then x else reverse x
-- What the caller gives, and a row of what others share, stay as they are.
entry callers_own (k: i64) (s: f64): ([4]f64, [3][4]f64) =
  let rows = map (\j -> map (\i -> f64.sin (f64.i64 (i + j) + s)) (iota 4)) (iota 3)
  let x = if k > 4 then rows[1] else map (+ 1) rows[2]
  in (copy x with [0] = 7, rows)
-- The next iteration reads it.
entry next_iteration (n: i64) (s: f64): f64 =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  in loop sum = 0 for i < n do
    let y = if sum > s then x else map (* sum) x
    in sum + y[i % 4] * 0.5 + y[(i + 1) % 4]
-- A loop in a branch goes on with the array, or with a copy.
entry small_loop (n: i64) (s: f64): ([4]f64, f64) =
  loop (x, sum) = (replicate 4 s, 0) for i < n do
    let z = x[1]
    let y = if i % 2 == 0 then (loop y = copy x for j < 3 do y with [j] = y[j + 1] + z) else copy x with [i % 4] = z
    in (y, sum + x[i % 4])
entry begun_twice (n: i64) (s: f64): ([4]f64, [4]f64) =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  in loop (a, b) = (copy x, copy x) for i < n do
    let v = b[(i + 1) % 4] let w = a[0] in (a with [i % 4] = v + 1, b with [(i + 2) % 4] = w)
entry begun_and_read (n: i64) (s: f64): ([4]f64, [4]f64) =
  let x = map (\i -> f64.sin (f64.i64 i + s)) (iota 4)
  in (loop a = copy x for i < n do a with [i % 4] = a[(i + 1) % 4] + x[2], x)
