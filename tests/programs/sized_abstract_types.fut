-- Abstract types with size parameters, `include`, `with`, one functor applied to what it made.
module type vec = { type t [n] 'a val mk [n] 'a : [n]a -> t [n] a val un [n] 'a : t [n] a -> [n]a val map [n] 'a 'b : (a -> b) -> t [n] a -> t [n] b }
module vec: vec = { type t [n] 'a = {xs: [n]a} def mk [n] 'a (xs: [n]a) = {xs} def un [n] 'a (v: t [n] a) = v.xs local def each [n] 'a 'b (f: a -> b) (xs: [n]a) = map f xs def map [n] 'a 'b (f: a -> b) (v: t [n] a): t [n] b = {xs = each f v.xs} }
module type eq = { type t val == : t -> t -> bool }
module type ord = { include eq val < : t -> t -> bool }
module mk_pair (A: ord) (B: ord): (ord with t = {l: A.t, r: B.t}) = {
  type t = {l: A.t, r: B.t}
  def (==) (x: t) (y: t) = A.(x.l == y.l) && B.(x.r == y.r)
  def (<) (x: t) (y: t) = A.(x.l < y.l) || (A.(x.l == y.l) && B.(x.r < y.r))
}
module P = mk_pair i32 (mk_pair f64 u8)
def lookup [n] 'v (keys: [n]P.t) (vals: [n]v) (none: v) (k: P.t): v =
  (reduce (\(f, x) (g, y) -> if f then (f, x) else if g then (g, y) else (false, none))
           (false, none) (map2 (\q v -> (P.(q == k), v)) keys vals)).1
-- ==
-- input { [1, 2] } output { [2, 4] true false 20i64 -1i64 }
entry main [n] (xs: [n]i32) =
  let v = vec.mk xs |> vec.map (* 2)
  let k (a: i32) (b: f64) (c: u8) = {l = a, r = {l = b, r = c}}
  in (vec.un v, P.(k 1 2 3 < k 1 2 4), P.(k 1 3 3 < k 1 2 4), lookup [k 1 1 1, k 2 2 2] [10, 20] (-1i64) (k 2 2 2), lookup [k 1 1 1] [10] (-1i64) (k 2 2 2))
