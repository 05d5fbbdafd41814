-- A stack with an abstract, unique type, in loops inside of a map.
module type stack = {
  type~ t
  val empty : i64 -> t
  val push : i32 -> *t -> *t
  val pop : *t -> *(t, i32)
  val size : t -> i64
}
module stack : stack = {
  type~ t = {xs: []i32, n: i64}
  def empty (k: i64) : t = {xs = replicate k 0i32, n = 0}
  def push (x: i32) (s: *t) : *t = {xs = s.xs with [s.n] = x, n = s.n + 1}
  def pop (s: *t) : *(t, i32) = let x = s.xs[s.n - 1] in ({xs = s.xs, n = s.n - 1}, x)
  def size (s: t) = s.n
}
def rpn [n] (tokens: [n]i32) : i32 =
  let s = loop s = stack.empty n for t in tokens do
    if t >= 0 then stack.push t s
    else let (s, b) = stack.pop s
         let (s, a) = stack.pop s
         in stack.push (if t == -1 then a + b else a * b) s
  in (stack.pop s).1
-- ==
-- input { [[2, 3, -1, 4, -2], [1, 2, 3, -1, -1]] } output { [20, 6] }
entry main [n] [m] (tss: [n][m]i32) = map rpn tss
