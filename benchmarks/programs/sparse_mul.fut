-- A complex sparse matrix by rows times a complex vector.  Entries of complex arrays are a real and an imaginary part.
-- Source of the problem: Liu and Zhao, Differentiate everything with a reversible programming language, 2020,
-- section 5.1.
-- ==
-- entry: value
-- input { [0i64, 2i64, 2i64, 3i64] [0i64, 1i64, 1i64] [[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]] [[1.0, 1.0], [2.0, -1.0]] }
-- output { [[-2.0, 1.0], [0.0, 0.0], [6.5, -2.0]] }

-- ==
-- entry: gradient
-- input { [0i64, 2i64, 2i64, 3i64] [0i64, 1i64, 1i64] [[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]] [[1.0, 1.0], [2.0, -1.0]]
--         [[1.0, 0.0], [5.0, 5.0], [0.0, 1.0]] }
-- output { [[1.0, -1.0], [2.0, 1.0], [-1.0, 2.0]] [[1.0, -2.0], [0.5, 4.0]] }

type complex = {re: f64, im: f64}

def complex (a: [2]f64) : complex = {re = a[0], im = a[1]}

def plus (a: complex) (b: complex) : complex = {re = a.re + b.re, im = a.im + b.im}

def times (a: complex) (b: complex) : complex = {re = a.re * b.re - a.im * b.im, im = a.re * b.im + a.im * b.re}

-- Row i, whose entries are those from starts[i] on up to the next row's.
def row [n][e][m] (starts: [n]i64) (columns: [e]i64) (values: [e][2]f64) (x: [m][2]f64) (i: i64) : complex =
  loop sum = {re = 0, im = 0} for k in starts[i]..<starts[i + 1] do
    plus sum (times (complex values[k]) (complex x[columns[k]]))

entry value [n][e][m] (starts: [n]i64) (columns: [e]i64) (values: [e][2]f64) (x: [m][2]f64) : [][2]f64 =
  map (\i -> let sum = row starts columns values x i in [sum.re, sum.im]) (iota (n - 1))

entry gradient [n][e][m] (starts: [n]i64) (columns: [e]i64) (values: [e][2]f64) (x: [m][2]f64)
                         (seed: [n - 1][2]f64) : ([e][2]f64, [m][2]f64) =
  vjp (\(values, x) -> sized (n - 1) (value starts columns values x)) (values, x) seed
