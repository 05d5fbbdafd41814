-- Arrays whose size is a member of a module, of sums with records in them.
module tree (P: {val depth: i64}) = {
  def size = (1 << P.depth) - 1
  type node = #leaf i32 | #node (i32, {l: i64, r: i64})
  def build : [size]node = tabulate size (\i -> if 2 * i + 2 < size then #node (i32.i64 i, {l = 2 * i + 1, r = 2 * i + 2}) else #leaf (i32.i64 i * 10))
  def total (ns: [size]node) : i32 =
    let vals = replicate size 0
    in (loop vals for k in size - 1..size - 2...0 do
      vals with [k] = match ns[k] case #leaf x -> x case #node (x, {l, r}) -> x + vals[l] + vals[r])[0]
}
module T3 = tree {def depth = 3i64}
module T1 = tree {def depth = 1i64}
-- ==
-- input { } output { 183 0 7i64 }
entry main = (T3.total T3.build, T1.total T1.build, T3.size)
