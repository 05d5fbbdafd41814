-- Parametric modules of parametric modules; closures in records.
module type monoid = { type t val op: t -> t -> t val ne: t }
module type folder = { type t val fold [n]: [n]t -> t val scan_ [n]: [n]t -> [n]t }
module mk_folder (M: monoid): folder with t = M.t = {
  type t = M.t
  def fold [n] (xs: [n]t) = reduce M.op M.ne xs
  def scan_ [n] (xs: [n]t) = scan M.op M.ne xs
}
module pair_monoid (A: monoid) (B: monoid): monoid with t = (A.t, B.t) = {
  type t = (A.t, B.t)
  def op ((a, b): t) ((c, d): t) = (A.op a c, B.op b d)
  def ne = (A.ne, B.ne)
}
module sum_i32 = { type t = i32 def op = (i32.+) def ne = 0i32 }
module max_f64 = { type t = f64 def op = f64.max def ne = -f64.inf }
module both = mk_folder (pair_monoid sum_i32 max_f64)
type^ machine 's = {init: s, step: s -> s, done: s -> bool}
def run 's (m: machine s) : s = iterate_until m.done m.step m.init
-- ==
-- input { [1, 2, 3] [0.5, 2.5, 1.0] } output { 6 2.5 [0.5, 2.5, 2.5] 64 10i64 }
entry main [n] (xs: [n]i32) (ys: [n]f64) =
  let (s, m) = both.fold (zip xs ys)
  let (_, ms) = unzip (both.scan_ (zip xs ys))
  let k = 2
  let m1 : machine i32 = {init = 1, step = (* k), done = \x -> x > 50}
  let m2 : machine (i64, i64) = {init = (0, 0), step = \(a, b) -> (a + b, b + 1), done = \(a, _) -> a >= 10}
  in (s, m, ms, run m1, (run m2).0)
