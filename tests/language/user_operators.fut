-- Operators that a program defines: infix and prefix definition, precedence by the first characters, backticks.
def (a: i32, b: i32) +^ (c: i32, d: i32) = (a + c, b + d)
def (*^) (a: i32, b: i32) (c: i32, d: i32) = (a * c, b * d)
def (x: i32) <=> (y: i32) = if x < y then -1 else if x == y then 0 else 1i32
def (>>>) 'a 'b 'c (f: a -> b) (g: b -> c) (x: a): c = g (f x)
def minus (x: i32) (y: i32) = x - y

-- ==
-- entry: precedence
-- input { 1 2 }
-- output { 7 14 -1 }
entry precedence (x: i32) (y: i32) =
  let (a, b) = (x, y) +^ (y, y) *^ (3, 6)
  in (a, b, x + 1 <=> y * 2)

-- ==
-- entry: named
-- input { 10 3 }
-- output { 4 26 }
entry named (x: i32) (y: i32) = (x `minus` y `minus` 3, ((+ y) >>> (* 2)) x)

-- ==
-- entry: redefined
-- input { 10 3 }
-- output { 7 13 }
entry redefined (x: i32) (y: i32) =
  let (+) (a: i32) (b: i32) = a - b
  in (x + y, x i32.+ y)

module dotted = {
  def (+.) (x: i32) (y: i32) = 10 * x + y
  def (*.) (x: i32) (y: i32) = x * y
}

-- ==
-- entry: with_dots
-- input { 1 2 }
-- output { 14 12 18 13 32 }
entry with_dots (x: i32) (y: i32) =
  let (-.) (a: i32) (b: i32) = a - b
  in (x dotted.+. y dotted.*. 2, dotted.(x +. y), (dotted.+.) x 8, (dotted.+. 3) x, ((x, y).1 dotted.+. 3) -. x -. -10)
