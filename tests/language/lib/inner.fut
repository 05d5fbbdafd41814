def reexported = 7i32
