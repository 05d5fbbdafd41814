-- The module `intrinsics`: what programs can ask of the compiler that is no part of the prelude.  A `val` is lowered
-- by source/lower/accs.py or arrays.py.
--
-- An accumulator (`acc t`) is an array that is being written, and cannot be read until the stream that opened it ends.

val scatter_stream [k] [n] 'a 'b:
  (dest: *[k]a) -> (f: *intrinsics.acc ([k]a) -> b -> intrinsics.acc ([k]a)) -> (bs: [n]b) -> *[k]a
val hist_stream [k] [n] 'a 'b:
  (dest: *[k]a) -> (op: a -> a -> a) -> (ne: a) ->
  (f: *intrinsics.acc ([k]a) -> b -> intrinsics.acc ([k]a)) -> (bs: [n]b) -> *[k]a
val acc_write [k] 'a: (acc: *intrinsics.acc ([k]a)) -> (i: i64) -> (v: a) -> *intrinsics.acc ([k]a)

-- The places of keys in ascending order of their remainders by a bound, which is positive; equal ones stay in order.
val argsort_below [n]: (bound: i64) -> (keys: [n]i64) -> *[n]i64

-- The places of keys in ascending order, of equal ones in order: by a digit of eight bits after the other, the lowest
-- one first.
#[inline]
def argsort [n] (keys: [n]u64): [n]i64 =
  loop order = iota n for digit < 8 do
    let digits = map (\i -> i64.u64 ((#[unsafe] keys[i]) >> u64.i64 (8 * digit) & 255)) order
    in map (\i -> #[unsafe] order[i]) (intrinsics.argsort_below 256 digits)

-- Flat indices: element (i, j, ...) is the one at offset + i * s1 + j * s2 + ...

#[inline]
def flat_index_2d [n] 'a (as: [n]a) (offset: i64) (n1: i64) (s1: i64) (n2: i64) (s2: i64): *[n1][n2]a =
  tabulate_2d n1 n2 (\i j -> as[offset + i * s1 + j * s2])

#[inline]
def flat_index_3d [n] 'a (as: [n]a) (offset: i64) (n1: i64) (s1: i64) (n2: i64) (s2: i64) (n3: i64) (s3: i64)
  : *[n1][n2][n3]a =
  tabulate_3d n1 n2 n3 (\i j k -> as[offset + i * s1 + j * s2 + k * s3])

#[inline]
def flat_index_4d [n] 'a (as: [n]a) (offset: i64)
                  (n1: i64) (s1: i64) (n2: i64) (s2: i64) (n3: i64) (s3: i64) (n4: i64) (s4: i64)
  : *[n1][n2][n3][n4]a =
  tabulate_2d n1 n2 (\i j -> tabulate_2d n3 n4 (\k l -> as[offset + i * s1 + j * s2 + k * s3 + l * s4]))

-- What is written lies between the extremes of offset + sum of (0 or n - 1) * s, if anything is written at all.
#[inline]
def flat_update [n] [m] 'a (as: *[n]a) (low: i64) (high: i64) (is: [m]i64) (vs: [m]a): *[n]a =
  let inside = m == 0 || (0 <= low && low <= high && high < n)
  in if inside then scatter as is vs else as with [if low < 0 then low else high] = vs[0]

#[inline]
def flat_update_2d [n] [k] [l] 'a (as: *[n]a) (offset: i64) (s1: i64) (s2: i64) (vs: [k][l]a): *[n]a =
  let (d1, d2) = ((k - 1) * s1, (l - 1) * s2)
  in intrinsics.flat_update as (offset + i64.min 0 d1 + i64.min 0 d2) (offset + i64.max 0 d1 + i64.max 0 d2)
                 (flatten (tabulate_2d k l (\i j -> offset + i * s1 + j * s2)))
                 (flatten vs)

#[inline]
def flat_update_3d [n] [k] [l] [p] 'a (as: *[n]a) (offset: i64) (s1: i64) (s2: i64) (s3: i64) (vs: [k][l][p]a): *[n]a =
  let (d1, d2, d3) = ((k - 1) * s1, (l - 1) * s2, (p - 1) * s3)
  in intrinsics.flat_update as (offset + i64.min 0 d1 + i64.min 0 d2 + i64.min 0 d3)
                 (offset + i64.max 0 d1 + i64.max 0 d2 + i64.max 0 d3)
                 (flatten_3d (tabulate_3d k l p (\i j m -> offset + i * s1 + j * s2 + m * s3)))
                 (flatten_3d vs)

#[inline]
def flat_update_4d [n] [k] [l] [p] [q] 'a
                   (as: *[n]a) (offset: i64) (s1: i64) (s2: i64) (s3: i64) (s4: i64) (vs: [k][l][p][q]a): *[n]a =
  let (d1, d2, d3, d4) = ((k - 1) * s1, (l - 1) * s2, (p - 1) * s3, (q - 1) * s4)
  let at i j m o = offset + i * s1 + j * s2 + m * s3 + o * s4
  in intrinsics.flat_update as (offset + i64.min 0 d1 + i64.min 0 d2 + i64.min 0 d3 + i64.min 0 d4)
                 (offset + i64.max 0 d1 + i64.max 0 d2 + i64.max 0 d3 + i64.max 0 d4)
                 (flatten_4d (tabulate_2d k l (\i j -> tabulate_2d p q (\m o -> at i j m o))))
                 (flatten_4d vs)
