-- Top-level constants, also arrays and functions, and constants made of constants.
-- ==
-- input { 2i64 }
-- output { 6 [1, 2, 3] 14 [0i64, 1i64, 2i64, 3i64] 12 5.0 }
def three: i32 = 3

def table = [1i32, 2, 3]

def squares = map (\x -> x * x) table

def size: i64 = 4

def grid = iota size

def double = map (* 2i32)

def five = 10.0 / 2.0 : f64

entry main (n: i64) =
  (three * i32.i64 n, copy table, i32.sum squares, copy grid :> [size]i64, i32.sum (double table), five)
