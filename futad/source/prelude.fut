-- The prelude.  A `val` is an intrinsic: source/lower/intrinsics.py gives it its meaning under the same name.
-- A `def` is ordinary code, checked when a program first uses it.  The numeric modules (f64, i32, ...) are
-- tables in numeric.py.

val map [n] 'a 'x: (f: a -> x) -> (as: [n]a) -> *[n]x
val map1 [n] 'a 'x: (f: a -> x) -> (as: [n]a) -> *[n]x
val map2 [n] 'a 'b 'x: (f: a -> b -> x) -> (as: [n]a) -> (bs: [n]b) -> *[n]x
val map3 [n] 'a 'b 'c 'x: (f: a -> b -> c -> x) -> (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> *[n]x
val map4 [n] 'a 'b 'c 'd 'x:
  (f: a -> b -> c -> d -> x) -> (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> (ds: [n]d) -> *[n]x
val map5 [n] 'a 'b 'c 'd 'e 'x:
  (f: a -> b -> c -> d -> e -> x) -> (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> (ds: [n]d) -> (es: [n]e) -> *[n]x
val reduce [n] 'a: (op: a -> a -> a) -> (ne: a) -> (as: [n]a) -> a
val reduce_comm [n] 'a: (op: a -> a -> a) -> (ne: a) -> (as: [n]a) -> a
val scan [n] 'a: (op: a -> a -> a) -> (ne: a) -> (as: [n]a) -> *[n]a
val exscan [n] 'a: (op: a -> a -> a) -> (ne: a) -> (as: [n]a) -> *[n]a
val hist [n] 'a: (op: a -> a -> a) -> (ne: a) -> (k: i64) -> (is: [n]i64) -> (as: [n]a) -> *[k]a
val reduce_by_index [k] [n] 'a: (dest: *[k]a) -> (f: a -> a -> a) -> (ne: a) -> (is: [n]i64) -> (as: [n]a) -> *[k]a
val reduce_by_index_2d [k] [n] [m] 'a:
  (dest: *[k][m]a) -> (f: a -> a -> a) -> (ne: a) -> (is: [n](i64, i64)) -> (as: [n]a) -> *[k][m]a
val reduce_by_index_3d [k] [n] [m] [l] 'a:
  (dest: *[k][m][l]a) -> (f: a -> a -> a) -> (ne: a) -> (is: [n](i64, i64, i64)) -> (as: [n]a) -> *[k][m][l]a
val scatter [k] [n] 't: (dest: *[k]t) -> (is: [n]i64) -> (vs: [n]t) -> *[k]t
val scatter_2d [k] [n] [l] 't: (dest: *[k][n]t) -> (is: [l](i64, i64)) -> (vs: [l]t) -> *[k][n]t
val scatter_3d [k] [n] [o] [l] 't: (dest: *[k][n][o]t) -> (is: [l](i64, i64, i64)) -> (vs: [l]t) -> *[k][n][o]t
val spread [n] 't: (k: i64) -> (x: t) -> (is: [n]i64) -> (vs: [n]t) -> *[k]t
val any [n] 'a: (f: a -> bool) -> (as: [n]a) -> bool
val all [n] 'a: (f: a -> bool) -> (as: [n]a) -> bool
val and [n]: (xs: [n]bool) -> bool
val or [n]: (xs: [n]bool) -> bool
val filter [n] 'a: (p: a -> bool) -> (as: [n]a) -> ?[k].*[k]a
val partition [n] 'a: (p: a -> bool) -> (as: [n]a) -> ?[k].([k]a, [n - k]a)
val partition2 [n] 'a: (p1: a -> bool) -> (p2: a -> bool) -> (as: [n]a) -> ?[k][l].([k]a, [l]a, [n - k - l]a)

val flatmap [n] 'a 'b 'c:
  (f: a -> ?[k].([k]b, c)) -> (as: [n]a) -> ?[m].([n]i64, [m]bool, [n]i64, [m]b, [n]c)

val jvp 'a 'b: (f: a -> b) -> (x: a) -> (x': a) -> b
val jvp2 'a 'b: (f: a -> b) -> (x: a) -> (x': a) -> (b, b)
val vjp 'a 'b: (f: a -> b) -> (x: a) -> (y': b) -> a
val vjp2 'a 'b: (f: a -> b) -> (x: a) -> (y': b) -> (b, a)
val jmp [n] 'a 'b: (f: a -> b) -> (x: a) -> (x': [n]a) -> [n]b
val jmp2 [n] 'a 'b: (f: a -> b) -> (x: a) -> (x': [n]a) -> (b, [n]b)
val mjp [n] 'a 'b: (f: a -> b) -> (x: a) -> (y': [n]b) -> [n]a
val mjp2 [n] 'a 'b: (f: a -> b) -> (x: a) -> (y': [n]b) -> (b, [n]a)
val with_vjp 'a 'b: (f: a -> b) -> (f': (res: b) -> (b_adj: b) -> a) -> (x: a) -> b
val with_vjp_tape 'a 'b 'c: (f: a -> (c, b)) -> (f': (c, b) -> a) -> (x: a) -> b
val with_inverse 'a 'b: (f: a -> b) -> (g: (res: b) -> a) -> (x: a) -> b
val invert 'a 'b: (f: a -> b) -> (y: b) -> a

val length [n] 't: (xs: [n]t) -> i64
val null [n] 't: (xs: [n]t) -> bool
val iota: (n: i64) -> *[n]i64
val indices [n] 't: (xs: [n]t) -> *[n]i64
val replicate 't: (n: i64) -> (x: t) -> *[n]t
val rep [n] 't: (x: t) -> *[n]t
val tabulate 'a: (n: i64) -> (f: i64 -> a) -> *[n]a
val tabulate_2d 'a: (n: i64) -> (m: i64) -> (f: i64 -> i64 -> a) -> *[n][m]a
val tabulate_3d 'a: (n: i64) -> (m: i64) -> (o: i64) -> (f: i64 -> i64 -> i64 -> a) -> *[n][m][o]a
val take [n] 't: (i: i64) -> (xs: [n]t) -> [i]t
val drop [n] 't: (i: i64) -> (xs: [n]t) -> [n - i]t
val split [n] [m] 't: (xs: [n + m]t) -> ([n]t, [m]t)
val head [n] 't: (xs: [n]t) -> t
val last [n] 't: (xs: [n]t) -> t
val tail [n] 't: (xs: [n]t) -> [n - 1]t
val init [n] 't: (xs: [n]t) -> [n - 1]t
val reverse [n] 't: (xs: [n]t) -> [n]t
val (++) [n] [m] 't: (xs: [n]t) -> (ys: [m]t) -> *[n + m]t
val concat [n] [m] 't: (xs: [n]t) -> (ys: [m]t) -> *[n + m]t
val rotate [n] 't: (r: i64) -> (xs: [n]t) -> *[n]t
val transpose [n] [m] 't: (xss: [n][m]t) -> [m][n]t
val flatten [n] [m] 't: (xs: [n][m]t) -> [n * m]t
val flatten_3d [n] [m] [l] 't: (xs: [n][m][l]t) -> [n * m * l]t
val flatten_4d [n] [m] [l] [k] 't: (xs: [n][m][l][k]t) -> [n * m * l * k]t
val unflatten [n] [m] 't: (xs: [n * m]t) -> [n][m]t
val unflatten_3d [n] [m] [l] 't: (xs: [n * m * l]t) -> [n][m][l]t
val unflatten_4d [n] [m] [l] [k] 't: (xs: [n * m * l * k]t) -> [n][m][l][k]t
val copy 't: (x: t) -> *t
val manifest 't: (x: t) -> *t
val sized [m] 't: (n: i64) -> (xs: [m]t) -> [n]t
val zip [n] 'a 'b: (as: [n]a) -> (bs: [n]b) -> *[n](a, b)
val zip2 [n] 'a 'b: (as: [n]a) -> (bs: [n]b) -> *[n](a, b)
val zip3 [n] 'a 'b 'c: (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> *[n](a, b, c)
val zip4 [n] 'a 'b 'c 'd: (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> (ds: [n]d) -> *[n](a, b, c, d)
val zip5 [n] 'a 'b 'c 'd 'e:
  (as: [n]a) -> (bs: [n]b) -> (cs: [n]c) -> (ds: [n]d) -> (es: [n]e) -> *[n](a, b, c, d, e)
val unzip [n] 'a 'b: (xs: [n](a, b)) -> ([n]a, [n]b)
val unzip2 [n] 'a 'b: (xs: [n](a, b)) -> ([n]a, [n]b)
val unzip3 [n] 'a 'b 'c: (xs: [n](a, b, c)) -> ([n]a, [n]b, [n]c)
val unzip4 [n] 'a 'b 'c 'd: (xs: [n](a, b, c, d)) -> ([n]a, [n]b, [n]c, [n]d)
val unzip5 [n] 'a 'b 'c 'd 'e: (xs: [n](a, b, c, d, e)) -> ([n]a, [n]b, [n]c, [n]d, [n]e)

val (|>) '^a '^b: (x: a) -> (f: a -> b) -> b
val (<|) '^a '^b: (f: a -> b) -> (x: a) -> b
val (>->) '^a '^b '^c: (f: a -> b) -> (g: b -> c) -> (x: a) -> c
val (<-<) '^a '^b '^c: (g: b -> c) -> (f: a -> b) -> (x: a) -> c
val flip '^a '^b '^c: (f: a -> b -> c) -> (b: b) -> (a: a) -> c
val curry '^a '^b '^c: (f: (a, b) -> c) -> (a: a) -> (b: b) -> c
val uncurry '^a '^b '^c: (f: a -> b -> c) -> (ab: (a, b)) -> c
val const '^a '^b: (x: a) -> (y: b) -> a
val id '^a: (x: a) -> a
val opaque 't: (x: t) -> t
val trace 't: (x: t) -> t
val break 't: (x: t) -> t
val not: (x: bool) -> bool
val foldl [n] 'a 'b: (f: a -> b -> a) -> (acc: a) -> (bs: [n]b) -> a
val foldr [n] 'a 'b: (f: b -> a -> a) -> (acc: a) -> (bs: [n]b) -> a
val par '~a '~b '~c '~d: (f: a -> b) -> (g: c -> d) -> (xy: (a, c)) -> (b, d)
val iterate 'a: (n: i32) -> (f: a -> a) -> (x: a) -> a
val iterate_while 'a: (p: a -> bool) -> (f: a -> a) -> (x: a) -> a
val iterate_until 'a: (p: a -> bool) -> (f: a -> a) -> (x: a) -> a

def flatmap' [n] 'a 'b (f: a -> ?[k].[k]b) (as: [n]a): ?[m].([n]i64, [m]bool, [n]i64, [m]b) =
  let (shape, flags, offsets, data, _) = flatmap (\x -> (f x, ())) as
  in (shape, flags, offsets, data)

def r32 (x: i32): f32 = f32.i32 x
def t32 (x: f32): i32 = i32.f32 x
def r64 (x: i32): f64 = f64.i32 x
def t64 (x: f64): i32 = i32.f64 x
