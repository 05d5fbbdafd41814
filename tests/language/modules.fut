-- Modules: definitions, open, local, nesting, ascription, parametric modules, M.(e).
module type monoid = { type t val zero: t val add: t -> t -> t }

module sum: monoid with t = i32 = { type t = i32 def zero = 0i32 def add = (i32.+) }
module product = { type t = f64 def zero = 1f64 def add (x: t) (y: t) = x * y }
module fold (m: monoid) = {
  local def go [n] (xs: [n]m.t) = reduce m.add m.zero xs
  def all [n] (xs: [n]m.t): m.t = go xs
  module inner = { def twice (x: m.t) = m.add x x }
}
module sums = fold sum
module products = fold product
module both = \(a: monoid) -> \(b: monoid) -> {
  type t = (a.t, b.t)
  def zero: t = (a.zero, b.zero)
  def add (x: t) (y: t): t = (a.add x.0 y.0, b.add x.1 y.1)
}
module pairs = fold (both sum product)

-- ==
-- entry: parametric
-- input { [1, 2, 3] [2.0, 4.0, 0.5] } output { 6 4.0 6 4.0 8 }
entry parametric [n] (a: [n]i32) (b: [n]f64) =
  let (s, p) = pairs.all (zip a b)
  in (sums.all a, products.all b, s, p, sums.inner.twice 4)

module hidden: { type t val make: i32 -> t val get: t -> i32 } = {
  type t = (i32, bool)
  def make x: t = (x * 2, true)
  def get (x: t) = x.0
}

-- ==
-- entry: abstract_types
-- input { 4 } output { 8 [2, 4] }
entry abstract_types (x: i32) = (hidden.get (hidden.make x), map hidden.get (map hidden.make [1, 2]))

module base = { def x = 1i32 def y = 2i32 }
module extended = { open base def x = 10i32 local def z = 5i32 def w = x + y + z }
module type has_y = { val y: i32 }
module type more = { include has_y val w: i32 module sub: has_y }
module nested: more = { open extended module sub = base }

-- ==
-- entry: opened
-- input { } output { 10 2 17 2 13 }
entry opened = (extended.x, extended.y, nested.w, nested.sub.y, extended.(x + y + 1))

module vector (p: { type t val +: t -> t -> t }) = {
  def add [n] (a: [n]p.t) (b: [n]p.t) = map2 (p.+) a b
}
module vf = vector f64

-- ==
-- entry: operators
-- input { [1.0] [2.0] } output { [3.0] 3.0 }
entry operators (a: [1]f64) (b: [1]f64) = (vf.add a b, a[0] f64.+ b[0])

module sized: { type~ t val make: i64 -> t val size: t -> i64 } = {
  type~ t = []i32
  def make (n: i64) = replicate n 0i32
  def size (x: []i32) = length x
}

-- ==
-- entry: lifted
-- input { 3i64 } output { 3i64 }
entry lifted (n: i64): i64 = sized.size (sized.make n)

module type wrapped = { type inner type box 'inner val put: inner -> box inner val count: box inner -> i64 }
module wrap (P: { type~ inner val count: inner -> i64 }): wrapped with inner = P.inner = {
  type~ inner = P.inner
  type box 'inner = (i64, inner)
  def put x = (1i64, x)
  def count (n, x) = n + P.count x
}
module wrapped_arrays = wrap { type~ inner = []bool def count (xs: inner) = length xs }

-- ==
-- entry: array_of_abstract
-- input { [true, false] [false, false] } output { [3i64, 3i64] }
-- input { [true, false] [false] } error: cannot match
entry array_of_abstract (xs: []bool) (ys: []bool) =
  map wrapped_arrays.count [wrapped_arrays.put xs, wrapped_arrays.put ys]
