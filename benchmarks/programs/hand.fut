-- Hand tracking (ADBench; Srajer, Kukelova and Fitzgibbon 2018): how far c measured points are from a hand's skin,
-- posed by 26 parameters theta: the hand's rotation 3 and position 3, and 4 angles for each of 5 fingers.  The simple
-- variant compares a point with a vertex of the skin, the complicated one with a place within a triangle, where two
-- more parameters per point, us, say.  The Jacobian has 3 c rows and 26 columns, in front of which the complicated
-- variant has 2 for us: the place of a point depends on its own us only, so one seed vector serves all.

type model [b][v] = { parents: [b]i32, relatives: [b][4][4]f64, inverses: [b][4][4]f64,
                      positions: [v][4]f64, weights: [v][b]f64, mirrored: bool }

def dot [n] (x: [n]f64) (y: [n]f64): f64 = f64.sum (map2 (*) x y)

def product [n][k][m] (a: [n][k]f64) (b: [k][m]f64): *[n][m]f64 =
  map (\row -> map (dot row) (transpose b)) a

-- The rotation about the axis r by |r| (the identity if that is small).
def rotation (r: [3]f64): [3][3]f64 =
  let angle = f64.sqrt (dot r r)
  in if angle < 0.0001 then [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
     else let (x, y, z) = (r[0] / angle, r[1] / angle, r[2] / angle)
          let (s, c) = (f64.sin angle, f64.cos angle)
          let d = 1 - c
          in [[x * x + (1 - x * x) * c, x * y * d - z * s, x * z * d + y * s],
              [x * y * d + z * s, y * y + (1 - y * y) * c, y * z * d - x * s],
              [x * z * d - y * s, z * y * d + x * s, z * z + (1 - z * z) * c]]

-- How bone i of the hand is turned in its joint: bones 2 to 21 are the fingers', four each, of which the first has two
-- angles, the next two have one, and the last is stiff, like the wrist and the forearm.
def joint (theta: [26]f64) (i: i64): [4][4]f64 =
  let (finger, k) = ((i - 2) / 4, (i - 2) % 4)
  let at j = theta[6 + 4 * finger + j]
  let (bend, splay) = if i < 2 || finger >= 5 || k == 3 then (0, 0)
                       else if k == 0 then (at 0, at 1)
                       else (at (k + 1), 0)
  let (cx, sx, cz, sz) = (f64.cos bend, f64.sin bend, f64.cos splay, f64.sin splay)
  in [[cz, -sz * cx, sz * sx, 0], [sz, cz * cx, -cz * sx, 0], [0, sx, cx, 0], [0, 0, 0, 1]]

-- Every bone's movement from the rest position, turned with the hand: the upper three rows.
def movements [b][v] (hand: model [b][v]) (theta: [26]f64): [b][3][4]f64 =
  let relatives = map2 (\m i -> product m (joint theta i)) hand.relatives (iota b)
  let absolutes =
    loop a = replicate b (replicate 4 (replicate 4 0)) for i < b do
      let parent = hand.parents[i]
      in a with [i] = if parent < 0 then relatives[i] else product a[parent] relatives[i]
  let turn = rotation (take 3 theta)
  let turn = if hand.mirrored then map (\row -> [-row[0], row[1], row[2]]) turn else turn
  in map2 (\a inverse -> product turn (take 3 (product a inverse))) absolutes hand.inverses

-- Where the vertices are: each moves as the weighted mean of its bones' movements.
def skin [b][v] (hand: model [b][v]) (theta: [26]f64): [v][3]f64 =
  let moves = map flatten (movements hand theta)
  let blended = product hand.weights moves
  let place move p = map2 (\row t -> dot row p + t) (unflatten (sized (3 * 4) move)) theta[3:6]
  in map2 place blended hand.positions

-- Where some of the vertices are: only these are moved if they are few, else all of them once.
def places [b][v][c] (hand: model [b][v]) (which: [c]i32) (theta: [26]f64): [c][3]f64 =
  if c < v
  then let few = {parents = hand.parents, relatives = hand.relatives, inverses = hand.inverses,
                  positions = map (\i -> hand.positions[i]) which, weights = map (\i -> hand.weights[i]) which,
                  mirrored = hand.mirrored}
       in skin few theta
  else let vertices = skin hand theta
       in map (\i -> vertices[i]) which

def simple [b][v][c] (hand: model [b][v]) (correspondences: [c]i32) (points: [c][3]f64)
                     (theta: [26]f64): [c][3]f64 =
  map2 (map2 (-)) points (places hand correspondences theta)

-- The corners of the triangles that correspond to points.
def corners [b][v][t][c] (hand: model [b][v]) (triangles: [t][3]i32) (correspondences: [c]i32)
                         (theta: [26]f64): [c][3][3]f64 =
  unflatten (places hand (flatten (map (\i -> triangles[i]) correspondences)) theta)

def complicated [c] (points: [c][3]f64) (us: [c][2]f64) (corners: [c][3][3]f64): [c][3]f64 =
  map3 (\p u triangle ->
          let place x y z = u[0] * x + u[1] * y + (1 - u[0] - u[1]) * z
          in map2 (-) p (map3 place triangle[0] triangle[1] triangle[2]))
       points us corners

-- The same with each place as a vertex of its own, which has a weight and a position for each corner and bone, and one
-- product of both: fewer operations if there is much to compute for each place, like 26 derivatives, more if not.
def complicated_by_bones [b][v][t][c] (hand: model [b][v]) (triangles: [t][3]i32) (correspondences: [c]i32)
                                      (points: [c][3]f64) (us: [c][2]f64) (theta: [26]f64): [c][3]f64 =
  let corner i share = map (\w -> map (* (share * w)) hand.positions[i]) hand.weights[i]
  let vertex i (u: [2]f64) =
    let t = triangles[i]
    in map3 (map3 (\x y z -> x + y + z)) (corner t[0] u[0]) (corner t[1] u[1]) (corner t[2] (1 - u[0] - u[1]))
  let moves = sized (b * 4) (flatten (map transpose (movements hand theta)))
  let vertices = map flatten (map2 vertex correspondences us)
  in map2 (\p x -> map3 (\p x t -> p - (x + t)) p x theta[3:6]) points (product vertices moves)

def one_hot (n: i64) (i: i64): [n]f64 = tabulate n (\j -> f64.bool (i == j))

-- ==
-- entry: simple_objective
-- input {
--   [-1i32, 0i32, 1i32] [[[-0.2, 0.2, -0.1, 0.8], [0.7, 0.3, -1.1, 0.0], [0.3, 0.5, -0.3, 0.9], [0.0, 0.0, 0.0,
--   1.0]], [[1.0, 0.1, -0.3, -0.2], [-0.5, -0.6, 0.3, 0.3], [0.6, -0.4, 0.8, -0.1], [0.0, 0.0, 0.0, 1.0]], [[0.5,
--   0.1, -0.3, -0.7], [-0.7, 0.3, 0.5, -0.1], [-0.5, 0.4, -0.6, -0.4], [0.0, 0.0, 0.0, 1.0]]] [[[0.1, -0.0, 0.1,
--   0.3], [-0.4, 0.7, 0.4, 0.4], [0.6, 0.4, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0]], [[0.1, -0.3, -0.5, -0.5], [0.1, 0.2,
--   0.7, -0.0], [0.5, 0.7, 0.6, -1.2], [0.0, 0.0, 0.0, 1.0]], [[0.2, 0.2, -0.2, -1.0], [-0.1, -0.4, 0.5, -0.1],
--   [0.0, -0.4, -0.3, -0.0], [0.0, 0.0, 0.0, 1.0]]] [[-2.4, 0.51, -0.3, 1.0], [-0.53, -0.24, 1.82, 1.0], [-0.05,
--   0.09, -1.49, 1.0]] [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]] false [1i32] [[-0.28, 1.64, -1.28]]
--   [0.66, 0.37, 0.43, 0.02, 0.37, 0.15, 0.25, -0.06, -0.59, 0.41, -0.77, -0.1, -0.08, -0.42, 0.25, -0.08, -0.17,
--   0.21, -0.19, 0.56, 0.14, -0.19, -0.78, -0.52, 0.43, -0.02]
-- }
-- output {
--   [[-1.7270148276039166, 0.8473124790970992, -2.1748611862261877]]
-- }
entry simple_objective [b][v][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64)
                                 (positions: [v][4]f64) (weights: [v][b]f64) (mirrored: bool)
                                 (correspondences: [c]i32) (points: [c][3]f64) (theta: [26]f64): [c][3]f64 =
  simple {parents, relatives, inverses, positions, weights, mirrored} correspondences points theta

-- The derivatives by theta, one row each.
entry simple_jacobian [b][v][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64)
                                (positions: [v][4]f64) (weights: [v][b]f64) (mirrored: bool)
                                (correspondences: [c]i32) (points: [c][3]f64) (theta: [26]f64): [26][c][3]f64 =
  let hand = {parents, relatives, inverses, positions, weights, mirrored}
  in jmp (simple hand correspondences points) theta (tabulate 26 (one_hot 26))

-- ==
-- entry: complicated_objective
-- input {
--   [-1i32, 0i32, 1i32] [[[-0.2, 0.2, -0.1, 0.8], [0.7, 0.3, -1.1, 0.0], [0.3, 0.5, -0.3, 0.9], [0.0, 0.0, 0.0,
--   1.0]], [[1.0, 0.1, -0.3, -0.2], [-0.5, -0.6, 0.3, 0.3], [0.6, -0.4, 0.8, -0.1], [0.0, 0.0, 0.0, 1.0]], [[0.5,
--   0.1, -0.3, -0.7], [-0.7, 0.3, 0.5, -0.1], [-0.5, 0.4, -0.6, -0.4], [0.0, 0.0, 0.0, 1.0]]] [[[0.1, -0.0, 0.1,
--   0.3], [-0.4, 0.7, 0.4, 0.4], [0.6, 0.4, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0]], [[0.1, -0.3, -0.5, -0.5], [0.1, 0.2,
--   0.7, -0.0], [0.5, 0.7, 0.6, -1.2], [0.0, 0.0, 0.0, 1.0]], [[0.2, 0.2, -0.2, -1.0], [-0.1, -0.4, 0.5, -0.1],
--   [0.0, -0.4, -0.3, -0.0], [0.0, 0.0, 0.0, 1.0]]] [[-2.4, 0.51, -0.3, 1.0], [-0.53, -0.24, 1.82, 1.0], [-0.05,
--   0.09, -1.49, 1.0]] [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]] false [[0i32, 1i32, 2i32]] [0i32]
--   [[-0.28, 1.64, -1.28]] [0.66, 0.37, 0.43, 0.02, 0.37, 0.15, 0.25, -0.06, -0.59, 0.41, -0.77, -0.1, -0.08,
--   -0.42, 0.25, -0.08, -0.17, 0.21, -0.19, 0.56, 0.14, -0.19, -0.78, -0.52, 0.43, -0.02] [[0.25, 0.5]]
-- }
-- output {
--   [[-1.7343552907891686, 0.6985051937220501, -2.603715816950022]]
-- }
entry complicated_objective [b][v][t][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64)
                                         (positions: [v][4]f64) (weights: [v][b]f64) (mirrored: bool)
                                         (triangles: [t][3]i32) (correspondences: [c]i32) (points: [c][3]f64)
                                         (theta: [26]f64) (us: [c][2]f64): [c][3]f64 =
  let hand = {parents, relatives, inverses, positions, weights, mirrored}
  in complicated points us (corners hand triangles correspondences theta)

-- The derivatives by us (two rows) and by theta.
entry complicated_jacobian [b][v][t][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64)
                                        (positions: [v][4]f64) (weights: [v][b]f64) (mirrored: bool)
                                        (triangles: [t][3]i32) (correspondences: [c]i32) (points: [c][3]f64)
                                        (theta: [26]f64) (us: [c][2]f64): ([2][c][3]f64, [26][c][3]f64) =
  let hand = {parents, relatives, inverses, positions, weights, mirrored}
  let posed = corners hand triangles correspondences theta
  in (jmp (\us -> complicated points us posed) us [replicate c [1, 0], replicate c [0, 1]],
      jmp (complicated_by_bones hand triangles correspondences points us) theta (tabulate 26 (one_hot 26)))
