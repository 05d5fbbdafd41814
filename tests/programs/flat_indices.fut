-- Flat indices of the module `intrinsics`: element (i, j, ...) is the one at offset + i * s1 + j * s2 + ...
-- ==
-- entry: reading
-- input { [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }
-- output { [[1, 3], [2, 4], [3, 5]] [[[9, 8], [5, 4]]] empty([0][3]i32) }
entry reading (xs: []i32) =
  ( intrinsics.flat_index_2d xs 1 3 1 2 2
  , intrinsics.flat_index_3d xs 9 1 100 2 (-4) 2 (-1)
  , intrinsics.flat_index_2d xs 0 0 1 3 50
  )

-- ==
-- entry: outside
-- input { [0, 1, 2, 3] 2i64 }
-- error: out of bounds
-- input { [0, 1, 2, 3] -1i64 }
-- error: out of bounds
entry outside (xs: []i32) (offset: i64) = intrinsics.flat_index_2d xs offset 2 1 2 1

-- ==
-- entry: writing
-- input { [0, 0, 0, 0, 0, 0] 1i64 [[1, 2], [3, 4]] }
-- output { [0, 1, 2, 3, 4, 0] }
-- input { [0, 0, 0, 0, 0, 0] 2i64 [[1, 2], [3, 4]] }
-- output { [0, 0, 1, 2, 3, 4] }
-- input { [0, 0, 0, 0, 0, 0] 3i64 [[1, 2], [3, 4]] }
-- error: out of bounds
-- input { [0, 0, 0, 0, 0, 0] -1i64 [[1, 2], [3, 4]] }
-- error: out of bounds
-- input { [0, 0] 100i64 empty([0][2]i32) }
-- output { [0, 0] }
entry writing (xs: *[]i32) (offset: i64) (vs: [][]i32) = intrinsics.flat_update_2d xs offset 2 1 vs

-- ==
-- entry: cubes
-- input { [0, 0, 0, 0, 0, 0, 0, 0] }
-- output { [8, 7, 6, 5, 4, 3, 2, 1] [[[[7, 8], [5, 6]], [[3, 4], [1, 2]]]] }
entry cubes (xs: [8]i32) =
  let ys = intrinsics.flat_update_4d (copy xs) 7 (-4) (-2) (-1) 1 [[[[1], [2]], [[3], [4]]], [[[5], [6]], [[7], [8]]]]
  in (ys, intrinsics.flat_index_4d ys 1 1 0 2 4 2 2 2 (-1))
