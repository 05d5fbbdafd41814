-- Records and tuples: construction, projection, update, patterns, nesting, arrays of records.
-- ==
-- input { [1.0, 2.0] [3.0, 4.0] }
-- output { 8.0 [1.0, 2.0] 5.0 7.0 9.0 3 4 }
type point = {x: f64, y: f64}

def norm1 ({x, y}: point): f64 = f64.abs x + f64.abs y

def mirror (p: point): point = p with x = -p.x

entry main [n] (xs: [n]f64) (ys: [n]f64) =
  let points = map2 (\x y -> {x, y}) xs ys
  let nested = {inner = points[0], tag = 3i32}
  let moved = nested with inner.x = 5
  let pair = (1i32, 2i32) with 1 = 4
  in ( f64.sum (map norm1 points) + norm1 (mirror points[0]) - 6
     , map (.x) points
     , moved.inner.x
     , points[1].x + moved.inner.x
     , (moved.inner with y = 4).y + moved.inner.x
     , nested.tag
     , pair.1
     )
