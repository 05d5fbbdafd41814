-- Attributes change how a program runs, never what it computes.
#[noinline]
def slow_path (x: i32) = x * 3

#[inline]
def fast_path (x: i32) = x + 1

-- ==
-- entry: main
-- input { [1, 2, 3] } output { [4, 7, 10] 6 14 3 }
#[whatever(1, two)]
entry main [n] (xs: [n]i32) =
  let a = #[sequential] map (\x -> #[unsafe] fast_path (slow_path x)) xs
  let b = #[unroll] loop s = 0 for i < 3 do s + xs[i]
  let c = #[sequential_outer] #[flattening(no_intra)] i32.sum (map (\x -> x * x) xs)
  let d = #[opaque] (length xs)
  in (a, b, c, i32.i64 d)

-- ==
-- entry: filled
-- input { 3i64 } output { [0i64, 1i64, 2i64] }
entry filled (n: i64): [n]i64 =
  let space: *[n]i64 = #[scratch] (replicate n 0)
  in scatter space (iota n) (iota n)
