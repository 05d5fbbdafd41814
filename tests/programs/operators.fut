-- User-defined operators, with their precedence, and as functions.
-- ==
-- input { 3 4 }
-- output { 7 25 [4, 6] 31 }
def (+.) (x: i32) (y: i32) = x + y

def (*.) (x: i32) (y: i32) = x * y

def (^^) (x: i32) (y: i32) = x * x + y * y

entry main (a: i32) (b: i32) =
  (a +. b, a ^^ b, map2 (+.) [1, 2] [3, 4], a +. b *. 7)
