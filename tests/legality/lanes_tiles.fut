-- Programs that tempt maps that follow each other to run a strip at a time.

def before [n] (x: [n]f64): [n]f64 = sized n ([1] ++ take (n - 1) x)
def after [n] (x: [n]f64): [n]f64 = sized n (drop 1 x ++ [2])
def down [n] (x: [n]f64): [n]f64 = map2 (\a b -> f64.sin a + 0.5 * b) (before x) x
def up [n] (x: [n]f64): [n]f64 = map2 (\a b -> f64.cos a - 0.5 * b) (after x) x
-- An element of an array that is computed by then is read between the maps.
entry element_between [n] (x: [n]f64): ([n]f64, [n]f64) =
  let a = down x
  let b = up a
  let s = b[n / 2]
  let c = map2 (\u v -> u * s + v) b (before a)
  in (down c, b)
-- An array is read as it was, before a map writes over it; or only a part of it is written.
entry read_first [n] (x: [n]f64): [n]f64 =
  let p = scan (+) 0 x
  let c = down p
  in map3 (\p a b -> p + a * b) p (before c) c
entry not_filled [n] (x: [n]f64) (y: [n]f64): []f64 =
  let p = scan (+) 0 x
  let s = p[0]
  let c = down (map (* s) y)
  let q = p with [1:n] = map2 (*) (drop 1 c) (take (n - 1) c)
  in map2 (*) (drop 1 q) (take (n - 1) q) ++ q
