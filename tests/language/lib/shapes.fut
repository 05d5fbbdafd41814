def double (x: i32) = x * 2
def square (x: i32) = x * x
local def secret = 1i32
entry entry_there (x: i32): i32 = x * 4
