-- What a module type shows has the type that it says: constructors of a type that the module itself leaves open,
-- entry points that are members, definitions that replace what `open` brought.
type event = #step f32 | #key i32 | #quit

module type player = {
  type state
  val start: state
  val event: event -> state -> state
  val copied [n]: [n]f32 -> *[n]f32
  val shown: state -> i32
}

module still: player = {
  type state = i32
  def start = 7i32
  def event _ s = s
  def copied = copy
  def shown s = s
}

module shifted (P: real) = {
  open P
  def sqrt (x: t): t = P.sqrt (x + P.i32 1)
}

module shifted_f64 = shifted f64

-- ==
-- entry: copied
-- input { [1f32, 2f32] } output { [1f32, 2f32] }
entry copied = still.copied

-- ==
-- entry: main
-- input { 3f64 8i8 } output { 7i32 2f64 [-1i8, 8i8] }
entry main (x: f64) (y: i8) =
  (still.shown (still.event (#key 3) (still.event (#step 1) still.start)), shifted_f64.sqrt x, [255i8, y])

-- Abstract types, with and without parameters; unique, nested, refined inside a module.
module type stack = {
  type~ t [n] 'a
  val empty 'a: a -> t [0] a
  val push [n] 'a: a -> t [n] a -> t [n + 1] a
  val values [n] 'a: t [n] a -> [n]a
}

module stack: stack = {
  type~ t [n] 'a = {items: [n]a, dummy: a}
  def empty dummy = {items = [], dummy}
  def push x {items, dummy} = {items = [x] ++ items, dummy}
  def values [n] 'a (s: t [n] a) = s.items
}

module type counter = {
  type~ t
  val new: i64 -> *t
  val bump: *t -> i64 -> *t
  val read: t -> []i32
}

module type counted = { module count: counter type key val at: key -> i64 }

module counters: counted with key = i8 = {
  module count = {
    type~ t = []i32
    def new n = replicate n 0i32
    def bump (c: *[]i32) (i: i64): *[]i32 = c with [i] = c[i] + 1
    def read (c: []i32) = c
  }
  type key = i8
  def at (k: key) = i64.i8 k
}

-- ==
-- entry: abstract
-- input { 1i8 } output { [3i32, 2, 1] [0i32, 2, 0] }
entry abstract (k: counters.key) =
  let s = stack.empty 0 |> stack.push 1 |> stack.push 2 |> stack.push 3
  let c = counters.count.new 3
  let c = loop c for _i < 2i32 do counters.count.bump c (counters.at k)
  in (stack.values s, counters.count.read c)
