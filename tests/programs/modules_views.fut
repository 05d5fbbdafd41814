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
