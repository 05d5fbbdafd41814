-- A fluid by the lattice Boltzmann method (Parboil's lbm): 19 populations a cell move to 18 of the neighbours or stay,
-- then relax towards equilibrium (Bhatnagar, Gross and Krook 1954; Qian, d'Humieres and Lallemand 1992).  Populations
-- come in opposite pairs, the first along the direction, the second against it.

type pair = (f32, f32)
type cell = {rest: f32, x: pair, y: pair, z: pair, xy: pair, yx: pair, xz: pair, zx: pair, yz: pair, zy: pair}

def relaxation: f32 = 1.95

def sum (p: pair): f32 = p.0 + p.1
def difference (p: pair): f32 = p.0 - p.1

def density (c: cell): f32 =
  c.rest + sum c.x + sum c.y + sum c.z + sum c.xy + sum c.yx + sum c.xz + sum c.zx + sum c.yz + sum c.zy

-- The flow, density times velocity.  Direction xy is x + y, yx is x - y.
def flow (c: cell): (f32, f32, f32) =
  (difference c.x + difference c.xy + difference c.yx + difference c.xz + difference c.zx,
   difference c.y + difference c.xy - difference c.yx + difference c.yz + difference c.zy,
   difference c.z + difference c.xz - difference c.zx + difference c.yz - difference c.zy)

-- Kinds of cells: 0 fluid; 1 obstacle, which sends back what comes; 2 moved with a fixed velocity.
def collided (kind: i8) (c: cell): cell =
  let rho = density c
  let (fx, fy, fz) = flow c
  let (ux, uy, uz) = if kind == 2 then (0.005, 0.002, 0) else (fx / rho, fy / rho, fz / rho)
  let rest = 1 - 1.5 * (ux * ux + uy * uy + uz * uz)
  let to (population: f32) (equilibrium: f32) = (1 - relaxation) * population + relaxation * rho * equilibrium
  let relaxed (weight: f32) (u: f32) (p: pair): pair =
    let even = rest + 4.5 * u * u
    in if kind == 1 then (p.1, p.0) else (to p.0 (weight * (even + 3 * u)), to p.1 (weight * (even - 3 * u)))
  let (axis, edge) = (1 / 18, 1 / 36)
  in {rest = if kind == 1 then c.rest else to c.rest (rest / 3),
      x = relaxed axis ux c.x, y = relaxed axis uy c.y, z = relaxed axis uz c.z,
      xy = relaxed edge (ux + uy) c.xy, yx = relaxed edge (ux - uy) c.yx,
      xz = relaxed edge (ux + uz) c.xz, zx = relaxed edge (ux - uz) c.zx,
      yz = relaxed edge (uy + uz) c.yz, zy = relaxed edge (uy - uz) c.zy}

-- What has moved to cell i; the grid's cells lie x by x, then y by y, and its ends are joined.  It has two layers or
-- more, so that no step goes around twice.
def moved [n] (dy: i64) (dz: i64) (grid: [n]cell) (i: i64): cell =
  let wrapped j = if j < 0 then j + n else if j >= n then j - n else j
  let from (d: i64) (part: cell -> pair): pair = ((part grid[wrapped (i - d)]).0, (part grid[wrapped (i + d)]).1)
  in {rest = grid[i].rest, x = from 1 (.x), y = from dy (.y), z = from dz (.z),
      xy = from (1 + dy) (.xy), yx = from (1 - dy) (.yx), xz = from (1 + dz) (.xz), zx = from (1 - dz) (.zx),
      yz = from (dy + dz) (.yz), zy = from (dy - dz) (.zy)}

def unpacked (c: [19]f32): cell =
  {rest = c[0], x = (c[1], c[2]), y = (c[3], c[4]), z = (c[5], c[6]), xy = (c[7], c[8]), yx = (c[9], c[10]),
   xz = (c[11], c[12]), zx = (c[13], c[14]), yz = (c[15], c[16]), zy = (c[17], c[18])}

def packed (c: cell): [19]f32 =
  [c.rest, c.x.0, c.x.1, c.y.0, c.y.1, c.z.0, c.z.1, c.xy.0, c.xy.1, c.yx.0, c.yx.1,
   c.xz.0, c.xz.1, c.zx.0, c.zx.1, c.yz.0, c.yz.1, c.zy.0, c.zy.1]

def simulated [z][y][x] (steps: i64) (kinds: [z][y][x]i8) (grid: [19][z][y][x]f32): [19][z][y][x]f32 =
  let n = z * y * x
  let kinds: [n]i8 = sized n (flatten (flatten kinds))
  let cells: [n]cell = grid |> map (\f -> sized n (flatten (flatten f))) |> transpose |> map unpacked
  let done = loop cells for _i < steps do
    tabulate n (\i -> collided kinds[i] (moved x (x * y) cells i))
  in map packed done |> transpose |> map (\f -> unflatten (unflatten (sized (z * y * x) f)))

-- ==
-- entry: primal
-- input {
--   2i64 [[[0i8, 1i8]], [[2i8, 0i8]]] [[[[0.367f32, 0.397f32]], [[0.343f32, 0.397f32]]], [[[0.059f32, 0.06f32]],
--   [[0.065f32, 0.06f32]]], [[[0.062f32, 0.056f32]], [[0.064f32, 0.062f32]]], [[[0.059f32, 0.064f32]], [[0.059f32,
--   0.061f32]]], [[[0.057f32, 0.06f32]], [[0.058f32, 0.058f32]]], [[[0.064f32, 0.059f32]], [[0.061f32, 0.066f32]]],
--   [[[0.066f32, 0.064f32]], [[0.062f32, 0.059f32]]], [[[0.029f32, 0.033f32]], [[0.031f32, 0.028f32]]], [[[0.031f32,
--   0.032f32]], [[0.031f32, 0.033f32]]], [[[0.028f32, 0.031f32]], [[0.03f32, 0.028f32]]], [[[0.031f32, 0.033f32]],
--   [[0.031f32, 0.029f32]]], [[[0.032f32, 0.031f32]], [[0.031f32, 0.032f32]]], [[[0.029f32, 0.032f32]], [[0.032f32,
--   0.032f32]]], [[[0.029f32, 0.032f32]], [[0.029f32, 0.028f32]]], [[[0.033f32, 0.033f32]], [[0.033f32, 0.03f32]]],
--   [[[0.029f32, 0.028f32]], [[0.031f32, 0.032f32]]], [[[0.032f32, 0.029f32]], [[0.029f32, 0.031f32]]], [[[0.032f32,
--   0.033f32]], [[0.029f32, 0.03f32]]], [[[0.033f32, 0.03f32]], [[0.031f32, 0.028f32]]]]
-- }
-- output {
--   [[[[0.36049888f32, 0.397f32]], [[0.37496102f32, 0.3651737f32]]], [[[0.059907924f32, 0.056032922f32]],
--   [[0.062776834f32, 0.06430341f32]]], [[[0.063710295f32, 0.06444715f32]], [[0.057010256f32, 0.05328703f32]]],
--   [[[0.060695045f32, 0.063587576f32]], [[0.06405747f32, 0.06160631f32]]], [[[0.058470834f32, 0.06498757f32]],
--   [[0.058606554f32, 0.061659507f32]]], [[[0.06315546f32, 0.06301187f32]], [[0.065433934f32, 0.059103355f32]]],
--   [[[0.068672135f32, 0.06646186f32]], [[0.062631436f32, 0.058522552f32]]], [[[0.029187607f32, 0.027901098f32]],
--   [[0.029522084f32, 0.03346035f32]]], [[[0.029222595f32, 0.03297291f32]], [[0.03015363f32, 0.032216094f32]]],
--   [[[0.028325351f32, 0.030107122f32]], [[0.030309068f32, 0.03158818f32]]], [[[0.027600568f32, 0.032262355f32]],
--   [[0.03182313f32, 0.031066364f32]]], [[[0.029747397f32, 0.029012932f32]], [[0.033389315f32, 0.031004202f32]]],
--   [[[0.029959425f32, 0.028816583f32]], [[0.030512283f32, 0.032666396f32]]], [[[0.027776908f32, 0.029000161f32]],
--   [[0.03007409f32, 0.03316723f32]]], [[[0.029607024f32, 0.032616585f32]], [[0.032412283f32, 0.030648105f32]]],
--   [[[0.029796712f32, 0.028f32]], [[0.033460595f32, 0.026319312f32]]], [[[0.030089142f32, 0.029f32]],
--   [[0.031590186f32, 0.031755522f32]]], [[[0.03254656f32, 0.033f32]], [[0.031655595f32, 0.02688111f32]]],
--   [[[0.031027306f32, 0.03f32]], [[0.033395186f32, 0.026580613f32]]]]
-- }
entry primal [z][y][x] (steps: i64) (kinds: [z][y][x]i8) (grid: [19][z][y][x]f32): [19][z][y][x]f32 =
  simulated steps kinds grid

-- By the populations at the start, given the adjoint of those at the end.
-- ==
-- entry: gradient
-- input {
--   2i64 [[[0i8, 1i8]], [[2i8, 0i8]]] [[[[0.367f32, 0.397f32]], [[0.343f32, 0.397f32]]], [[[0.059f32, 0.06f32]],
--   [[0.065f32, 0.06f32]]], [[[0.062f32, 0.056f32]], [[0.064f32, 0.062f32]]], [[[0.059f32, 0.064f32]], [[0.059f32,
--   0.061f32]]], [[[0.057f32, 0.06f32]], [[0.058f32, 0.058f32]]], [[[0.064f32, 0.059f32]], [[0.061f32, 0.066f32]]],
--   [[[0.066f32, 0.064f32]], [[0.062f32, 0.059f32]]], [[[0.029f32, 0.033f32]], [[0.031f32, 0.028f32]]], [[[0.031f32,
--   0.032f32]], [[0.031f32, 0.033f32]]], [[[0.028f32, 0.031f32]], [[0.03f32, 0.028f32]]], [[[0.031f32, 0.033f32]],
--   [[0.031f32, 0.029f32]]], [[[0.032f32, 0.031f32]], [[0.031f32, 0.032f32]]], [[[0.029f32, 0.032f32]], [[0.032f32,
--   0.032f32]]], [[[0.029f32, 0.032f32]], [[0.029f32, 0.028f32]]], [[[0.033f32, 0.033f32]], [[0.033f32, 0.03f32]]],
--   [[[0.029f32, 0.028f32]], [[0.031f32, 0.032f32]]], [[[0.032f32, 0.029f32]], [[0.029f32, 0.031f32]]], [[[0.032f32,
--   0.033f32]], [[0.029f32, 0.03f32]]], [[[0.033f32, 0.03f32]], [[0.031f32, 0.028f32]]]] [[[[0.9f32, -0.3f32]],
--   [[-1.5f32, -0.1f32]]], [[[-0.4f32, 0.8f32]], [[0.2f32, -1.6f32]]], [[[-1.2f32, 0.9f32]], [[0.7f32, -0.6f32]]],
--   [[[-0.0f32, 0.4f32]], [[0.5f32, 0.9f32]]], [[[0.3f32, -0.1f32]], [[-0.3f32, 1.1f32]]], [[[-2.3f32, -0.1f32]],
--   [[0.0f32, -1.4f32]]], [[[0.3f32, -0.7f32]], [[0.9f32, -0.1f32]]], [[[0.7f32, 1.2f32]], [[0.4f32, -0.9f32]]],
--   [[[-1.5f32, 1.8f32]], [[-0.1f32, -0.7f32]]], [[[0.1f32, -0.2f32]], [[0.9f32, 0.0f32]]], [[[0.0f32, -0.7f32]],
--   [[0.5f32, -1.0f32]]], [[[0.7f32, 1.5f32]], [[-1.5f32, -2.5f32]]], [[[0.6f32, 2.5f32]], [[-1.0f32, -1.3f32]]],
--   [[[0.6f32, -0.8f32]], [[-0.5f32, -0.3f32]]], [[[0.5f32, -0.4f32]], [[0.3f32, -0.2f32]]], [[[-0.8f32, -0.3f32]],
--   [[-1.0f32, 0.0f32]]], [[[-1.1f32, -1.1f32]], [[1.5f32, -0.1f32]]], [[[-0.1f32, 0.5f32]], [[-0.4f32, -0.2f32]]],
--   [[[0.4f32, 0.3f32]], [[-1.2f32, 0.8f32]]]]
-- }
-- output {
--   [[[[0.028496504f32, -0.3f32]], [[0.42271703f32, -0.3138215f32]]], [[[0.7015283f32, 0.48475966f32]],
--   [[-1.3258274f32, -1.6260334f32]]], [[[-0.011990011f32, -0.7453901f32]], [[-1.0631825f32, 0.18694377f32]]],
--   [[[0.5212308f32, -1.0780177f32]], [[0.41240573f32, -1.2225885f32]]], [[[1.2008078f32, -0.78592575f32]],
--   [[0.30223298f32, -1.8687804f32]]], [[[-0.67914385f32, -0.82968354f32]], [[-0.20990133f32, -0.07254231f32]]],
--   [[[0.32543218f32, 0.010740101f32]], [[1.5562899f32, 0.30617338f32]]], [[[0.7012973f32, -0.51018995f32]],
--   [[-0.7781824f32, -0.7630562f32]]], [[[0.45453754f32, 0.0679872f32]], [[-1.8225058f32, -1.187961f32]]],
--   [[[1.9196395f32, 0.11950511f32]], [[-1.3481824f32, 1.6119438f32]]], [[[0.59419346f32, 0.59161943f32]],
--   [[-1.6446748f32, -0.46978825f32]]], [[[-1.3351187f32, -2.115703f32]], [[0.07681763f32, -1.4280562f32]]],
--   [[[-0.4669104f32, -0.48305684f32]], [[-0.4809654f32, -1.301904f32]]], [[[0.977805f32, 0.010268152f32]],
--   [[-1.1581824f32, 1.3269439f32]]], [[[1.0406414f32, 1.3231634f32]], [[-0.63971484f32, -0.07084519f32]]],
--   [[[-1.8220893f32, -0.3f32]], [[0.87396705f32, -0.50840306f32]]], [[[-1.460168f32, -1.1f32]], [[3.1302173f32,
--   -0.028989911f32]]], [[[-1.578322f32, 0.5f32]], [[1.4154671f32, -0.09194958f32]]], [[[0.2815652f32, 0.3f32]],
--   [[0.693467f32, 0.18630683f32]]]]
-- }
entry gradient [z][y][x] (steps: i64) (kinds: [z][y][x]i8) (grid: [19][z][y][x]f32) (seed: [19][z][y][x]f32)
                         : [19][z][y][x]f32 =
  vjp (simulated steps kinds) grid seed
