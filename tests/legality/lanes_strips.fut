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
