-- The trace of A' B, A and B sparse matrices by columns: in each column the rows of both are merged.
-- Source of the problem: Liu and Zhao, Differentiate everything with a reversible programming language, 2020,
-- section 4.1; the merge is that of Julia's SparseArrays.
-- ==
-- entry: value
-- input { [0i64, 2i64, 3i64, 3i64] [0i64, 2i64, 1i64] [1.0, 2.0, 3.0]
--         [0i64, 2i64, 4i64, 5i64] [1i64, 2i64, 0i64, 1i64, 2i64] [10.0, 20.0, 30.0, 40.0, 50.0] }
-- output { 160.0 }

-- ==
-- entry: gradient
-- input { [0i64, 2i64, 3i64, 3i64] [0i64, 2i64, 1i64] [1.0, 2.0, 3.0]
--         [0i64, 2i64, 4i64, 5i64] [1i64, 2i64, 0i64, 1i64, 2i64] [10.0, 20.0, 30.0, 40.0, 50.0] }
-- output { [0.0, 20.0, 40.0] [0.0, 2.0, 0.0, 3.0, 0.0] }

-- Where columns begin (and the last one ends), the row of each entry, ascending within a column, and its value.
type sparse [n][e] = {starts: [n]i64, rows: [e]i64, values: [e]f64}

def column_dot [n][e][f] (x: sparse [n][e]) (y: sparse [n][f]) (j: i64) : f64 =
  let (x_end, y_end) = (x.starts[j + 1], y.starts[j + 1])
  let (sum, _, _) =
    loop (sum, a, b) = (0, x.starts[j], y.starts[j]) while a < x_end && b < y_end do
      if x.rows[a] < y.rows[b] then (sum, a + 1, b)
      else if x.rows[a] > y.rows[b] then (sum, a, b + 1)
      else (sum + x.values[a] * y.values[b], a + 1, b + 1)
  in sum

def dot [n][e][f] (x: sparse [n][e]) (y: sparse [n][f]) : f64 =
  f64.sum (map (column_dot x y) (iota (n - 1)))

entry value [n][e][f] (x_starts: [n]i64) (x_rows: [e]i64) (x: [e]f64)
                      (y_starts: [n]i64) (y_rows: [f]i64) (y: [f]f64) : f64 =
  dot {starts = x_starts, rows = x_rows, values = x} {starts = y_starts, rows = y_rows, values = y}

entry gradient [n][e][f] (x_starts: [n]i64) (x_rows: [e]i64) (x: [e]f64)
                         (y_starts: [n]i64) (y_rows: [f]i64) (y: [f]f64) : ([e]f64, [f]f64) =
  vjp (\(x, y) -> value x_starts x_rows x y_starts y_rows y) (x, y) 1
