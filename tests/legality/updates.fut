-- Arrays updated in place, by loops of other lengths each time: an entry for each condition.

-- How many iterations the inner loop takes, only the iteration knows.
entry decided [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  vjp (\xs -> f64.sum (loop (a, is) = (copy xs, copy is) for i < n do
                         let a = loop a for j < is[i] % 3 do a with [(i + j) % n] = f64.sin a[i] * a[(i + j) % n]
                         in (a, is with [(i + 1) % n] = is[i] + i)).0) xs 1

-- It is an element of an array that stays as it is.
entry listed [n] (xs: [n]f64) (is: [n]i64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         loop a for j < is[i] % 3 do a with [(i + j) % n] = f64.sin a[i] * a[(i + j) % n])) xs 1

-- A division that fails where the branch is not taken.
entry guarded [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         if i % 3 == 0
                         then a with [i] = a[i] * a[n - 1 - i]
                         else loop a for j < 6 / (i % 3) do a with [j % n] = f64.sin a[i] * a[j % n])) xs 1

-- Ranges and loops that get shorter.
entry shorter [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs -> f64.sum (loop a = copy xs for i < n do
                         let y = a[i]
                         let a[i:n] = map (\x -> x * f64.sin y) a[i:n]
                         in loop a for j < n - i do a with [j] = a[j] * a[i])) xs 1
