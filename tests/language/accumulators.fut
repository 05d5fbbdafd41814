-- Write-only accumulators of the module `intrinsics`: updates in any order, those out of range ignored.
type~ acc 't = intrinsics.acc t

def count [n] (a: *acc ([n]i32)) (i: i64): acc ([n]i32) = intrinsics.acc_write a i 1
def times_ten [n] (a: *acc ([n]i32)) (i: i64): acc ([n]i32) = intrinsics.acc_write a i (i32.i64 i * 10)

-- ==
-- entry: stream
-- input { [0, 0, 0] [0i64, 2i64, 0i64, 5i64] } output { [2, 0, 1] }
entry stream [n] [m] (dest: *[n]i32) (is: [m]i64): [n]i32 =
  intrinsics.hist_stream dest (+) 0 count is

-- ==
-- entry: scattered
-- input { [0, 0, 0] [2i64, 1i64, 9i64] } output { [0, 10, 20] }
entry scattered [n] [m] (dest: *[n]i32) (is: [m]i64): [n]i32 =
  intrinsics.scatter_stream dest times_ten is
