-- What must hold for an iteration to be run backwards: an entry for each condition.

-- A float that grows much comes back without its last digits.
entry no_rounding (n: i64) (x: f64) : f64 =
  vjp (\x -> let (_, y) = loop (x, y) = (x, 0) for _i < n do (x + 1e15, y + f64.sin x) in y) x 1

-- What the other branch would divide by is zero.
-- ==
-- entry: assumed
-- input { 4i64 0i64 1.5 }
entry assumed (n: i64) (k: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _, _) = loop (s, a, b) = (0, 5i64, 7i64) for i < n do
                           (s + x * f64.i64 (a % 5) * f64.i64 (b % 7),
                            if i % 2 == k % 2 then a + 1 else a - 6,
                            b + (if i % 2 == k % 2 then 12 / (a - a + 1) else 12 / (a + 1)))
         in s) x 1

-- Two numbers become one.
entry even_factor (n: i64) (x: f64) : f64 =
  vjp (\x -> let (s, _) = loop (s, a) = (x, 123456789u32) for _i < n do (s * f64.u32 (a >> 20), a * 6 + 1) in s) x 1

-- The sign is in both operands.
entry signed_shift (n: i64) (x: f64) : f64 =
  vjp (\x -> let (s, _) = loop (s, a) = (x, -123456789i32) for _i < n do (s * f64.i32 (a >> 20), a ^ (a >> 3)) in s)
      x 1

-- Bits are left out between the two shifts.
entry two_shifts (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _) = loop (s, a) = (x, 123456789u32) for _i < n do (s * f64.u32 (a % 9 + 1), (a << 5) | (a >> 29))
         in s) x 1

-- The elements between the slices, and after them, are lost.
entry gap [n] (xs: [n]f64) : [n]f64 =
  vjp (\xs ->
         let (s, _) = loop (s, ys) = (0, xs) for _i < n - 1 do
                        (s + f64.sin ys[0] * ys[n - 1], concat ys[:n - 1] ys[:1] :> [n]f64)
         in s) xs 1

-- The element that is overwritten is not the one that its new value is made of.
entry other_element (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _) = loop (s, a) = (x, [1u32, 2, 3, 4]) for i < n do
                        (s * f64.u32 (a[i % 4] % 8 + 1), copy a with [i % 4] = a[(i * i + 1) % 4] * 3 + 1)
         in s) x 1

-- The other half of the bits is gone.
entry narrower (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _) = loop (s, a) = (x, 123456i32) for _i < n do (s * f64.i32 (a % 9 + 1), i32.i16 (i16.i32 a) + 1)
         in s) x 1

-- What comes back is not what was: an error.
entry not_back (n: i64) (x: f64) : f64 =
  #[reversible(1e-10)] vjp (\x -> let (_, y) = loop (x, y) = (x, 0) for _i < n do (x + 1e15, y + f64.sin x) in y) x 1

-- Not solved for by an inverse: the sum loses x.
-- ==
-- entry: unsolved
-- input { 0.1 1e16 }
entry unsolved (x: f64) (y: f64) : (f64, f64) = ((x + y) - y, (x - y) + y)

-- The element that is read is the one that is overwritten, now and then.
entry overwritten (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _) = loop (s, a) = (x, [1u32, 2, 3, 4]) for i < n do
                        (s * f64.u32 (a[i % 4] % 8 + 1), copy a with [i % 4] = a[i % 4] + a[(i * i) % 4] * 3)
         in s) x 1

-- No x gives both numbers.
entry not_given (x: f64) (y: f64) : f64 = invert (\x -> (x + 1, x + 2)) (x, y)

-- What is given as an inverse is none: an error.
entry not_inverse (n: i64) (x: f64) : f64 =
  vjp (\x ->
         let (s, _) = loop (s, a) = (x, 12345u32) for _i < n do
                        (s * f64.u32 (a % 9 + 1), with_inverse (\a -> a % 977 * 5) (\a -> a / 3) a)
         in s) x 1

-- What the second half forgets the first one magnified: undone, errors come to nothing. An error.
-- ==
-- entry: forgotten
-- input { 60i64 0.3 }
entry forgotten (n: i64) (a: f64) : f64 =
  #[reversible] vjp (\a -> let (_, s) = loop (x, s) = (0, 0) for i < n do
                                          let x = if i < n / 2 then 4 * x else x / 4 + a in (x, s + f64.sin (x * a))
                           in s) a 1

-- Of six elements three are read, each twice.
-- ==
-- entry: read_twice
-- input { 3i64 [0.3, 0.5, 0.7, 1.1, 1.3, 1.7] }
entry read_twice (n: i64) (vs: [6]f64) : [6]f64 =
  vjp (\vs -> let (_, s) = loop (xs, s) = (copy vs, 0) for _i < n do
                             let ys = map (\k -> xs[(2 * k) % 6]) (iota 6) in (ys, s * 0.9 + f64.sin ys[0] * ys[5])
              in s) vs 1

-- What comes back ends in the same bits as the state on the way, and is another one; the first iterations hide it: an
-- error.
-- ==
-- entry: near_another
-- input { 128i64 0.7 }
entry near_another (n: i64) (a: f64) : f64 =
  let moved (i: i64) (x: f64) = if i < 10 then 4 * x else if i == 100 then x + 1073741824 else
                                if i == 101 then x - 1073741824 else x
  in #[reversible] vjp (\a -> let (_, s) = loop (x, s) = ([1.192093463942001e-07], 0) for i < n do
                                             let x = map (moved i) x in (x, s + f64.sin (x[0] * a))
                              in s) a 1
