-- jmp, jmp2, mjp and mjp2: many directions at once.
-- ==
-- input { [1.0, 2.0] }
-- output { [[2.0, 1.0], [1.0, 0.0]] [2.0, 1.0] [[2.0, 1.0], [1.0, 0.0]] [[2.0, 1.0], [1.0, 0.0]] [2.0, 1.0] [[2.0, 1.0], [1.0, 0.0]] }
def f (x: [2]f64): [2]f64 = [x[0] * x[1], x[0]]

entry main (x: [2]f64) =
  let eye = [[1, 0], [0, 1]]
  let (y, j) = jmp2 f x eye
  let (z, t) = mjp2 f x eye
  in (transpose (jmp f x eye), y, transpose j, mjp f x eye, z, t)
