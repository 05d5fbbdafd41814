-- Accumulator streams of the module `intrinsics`: overwriting, adding (in parallel), other operators, tuples, rows,
-- loops and branches around the updates, nested streams, derivatives; places out of range are ignored.
type~ acc 't = intrinsics.acc t

def put [n] 't (a: *acc ([n]t)) (i: i64) (v: t): *acc ([n]t) = intrinsics.acc_write a i v

def twice [n] (a: *acc ([n]i32)) (i: i64): acc ([n]i32) =
  let a = put a (2 * i) (i32.i64 i)
  in put a (2 * i + 1) (i32.i64 i)

def some [n] (a: *acc ([n]i32)) (i: i64): acc ([n]i32) =
  if i % 2 == 0 then put a i 100 else loop a for j < i do put a j 1

-- ==
-- entry: streams
-- input { [1, 2, 3, 4, 5] 3i64 }
-- output { [0, 0, 1, 1, 2] [1, 2, 4, 5, 7] [0, 0, 3, 4, 10] [102, 2, 103, 4, 5] }
-- input { [1, 2] 0i64 }
-- output { [1, 2] [1, 2] [1, 2] [1, 2] }
-- input { empty([0]i32) 2i64 }
-- output { empty([0]i32) empty([0]i32) empty([0]i32) empty([0]i32) }
entry streams [n] (xs: [n]i32) (k: i64) =
  ( intrinsics.scatter_stream (copy xs) twice (iota k)
  , intrinsics.hist_stream (copy xs) (+) 0 twice (iota k)
  , intrinsics.hist_stream (copy xs) (*) 1 twice (iota k)
  , intrinsics.hist_stream (copy xs) (+) 0 some (iota k)
  )

-- ==
-- entry: tuples
-- input { [0i64, 2, 0, 9, -1] }
-- output { [4, 0, 1] [0f64, 0, 1] [[2i64, 2], [0, 0], [1, 1]] }
entry tuples (is: []i64) =
  let add (a: i32, x: f64) (b, y) = (a + b, f64.max x y)
  let write (a: *acc ([3](i32, f64))) i =
    put a i (if i == 2 then (1, f64.i64 (i / 2)) else (2, -1))
  let row (a: *acc ([3][2]i64)) i = put a i [1, 1]
  let (a, b) = unzip (intrinsics.hist_stream (replicate 3 (0, 0)) add (0, -f64.inf) write is)
  in (a, b, intrinsics.hist_stream (replicate 3 [0, 0]) (map2 (+)) [0, 0] row is)

-- ==
-- entry: nested
-- input { 4i64 2i64 }
-- output { [[0, 0, 1, 1], [1, 1, 2, 2], [2, 2, 3, 3], [3, 3, 4, 4]] }
entry nested (n: i64) (k: i64) =
  tabulate n (\i -> intrinsics.hist_stream (replicate 4 (i32.i64 i)) (+) 0 twice (iota k))

def weigh [n] (k: i64) (xs: [n]f64): [3]f64 =
  let write (a: *acc ([3]f64)) (i, x) =
    loop a for j < k do put a ((i + j) % 4) (x * x * f64.i64 (j + 1))
  in intrinsics.hist_stream [1, 0, 0] (+) 0 write (zip (indices xs) xs)

def overwrite [n] (xs: [n]f64): [3]f64 =
  let write (a: *acc ([3]f64)) (i, x) = put a (2 * i) (x * x)
  in intrinsics.scatter_stream (copy (take 3 xs)) write (zip (indices xs) xs)

def dot [n] (xs: [n]f64) (ys: [n]f64) = f64.sum (map2 (*) xs ys)
def hot n (i: i64) = replicate n 0f64 with [i] = 1

-- Reverse mode, and its difference from forward mode, of a stream that adds and one that overwrites.
-- ==
-- entry: gradients
-- input { [1.0, 2.0, 3.0, 4.0] 2i64 [1.0, 10.0, 100.0] }
-- output { [42.0, 840.0, 600.0, 16.0] [0.0, 0.0, 0.0, 0.0] [2.0, 410.0, 0.0, 0.0] [0.0, 0.0, 0.0, 0.0] }
entry gradients [n] (xs: [n]f64) (k: i64) (seed: [3]f64) =
  let (a, b) = (vjp (weigh k) xs seed, vjp overwrite xs seed)
  let forward f = tabulate n (\i -> dot (jvp f xs (hot n i)) seed)
  in (a, map2 (-) a (forward (weigh k)), b, map2 (-) b (forward overwrite))
