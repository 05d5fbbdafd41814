-- Macroscopic cross sections for neutrons from tables, after the proxy application XSBench (Tramm et al. 2014): each
-- lookup draws an energy and a material, and sums up the cross sections of the material's nuclides, interpolated
-- linearly between grid points.  A grid point has an energy and five cross sections (total, elastic, absorption,
-- fission, fission times neutrons); the union of all grids tells for each of its energies where it lies in each grid.

import "lcg"

-- The last place whose value is at most x; 0 if there is none, and never the last place of all.
def search [n] (xs: [n]f64) (x: f64): i64 =
  (loop (low, high) = (0, n - 1) while high - low > 1 do
     let middle = low + (high - low) / 2
     in if xs[middle] > x then (low, middle) else (middle, high)).0

-- The weighted sum of all cross sections of the lookups.  places[u, i] is where the energy union[u] lies in the grid of nuclide
-- i; material m consists of the nuclides members[m, j] with the densities[m, j], for j < sizes[m].
def total [n][g][u][m][k] (lookups: i64) (weights: [5]f64) (grids: [n][g][6]f64) (union: [u]f64)
                          (places: [u][n]i32) (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): f64 =
  let lookup i =
    let (energy, material) = drawn i
    let place = search union energy
    let (a, b, c, d, e) =
      loop (a, b, c, d, e) = (0, 0, 0, 0, 0) for j < i64.i32 sizes[material] do
        let density = densities[material, j]
        let nuclide = i64.i32 members[material, j]
        let at = i64.i32 places[place, nuclide]
        let (low, high) = (grids[nuclide, at], grids[nuclide, at + 1])
        let part = (high[0] - energy) / (high[0] - low[0])
        let between q = density * (high[q] - part * (high[q] - low[q]))
        in (a + between 1, b + between 2, c + between 3, d + between 4, e + between 5)
    in weights[0] * a + weights[1] * b + weights[2] * c + weights[3] * d + weights[4] * e
  in f64.sum (tabulate lookups lookup)

-- ==
-- entry: objective
-- input {
--   4i64 [1.0, 2.0, 3.0, 4.0, 5.0] [[[0.3, 0.09, 0.66, 0.93, 0.21, 0.63], [0.37, 0.74, 0.72, 0.22, 0.83, 0.66], [0.68,
--   0.82, 0.43, 0.76, 0.88, 0.1]], [[0.18, 0.39, 0.48, 0.15, 0.7, 0.29], [0.85, 0.28, 0.56, 0.4, 0.61, 0.2], [0.87,
--   0.75, 0.75, 0.57, 0.92, 0.21]]] [0.18, 0.3, 0.37, 0.68, 0.85, 0.87] [[0i32, 0i32], [0i32, 0i32], [1i32, 0i32],
--   [1i32, 0i32], [1i32, 1i32], [1i32, 1i32]] [1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32]
--   [[1i32], [0i32], [0i32], [0i32], [1i32], [0i32], [1i32], [0i32], [1i32], [1i32], [0i32], [0i32]] [[0.5], [0.7],
--   [0.4], [0.4], [0.7], [0.3], [0.7], [0.0], [0.3], [0.9], [0.5], [0.0]]
-- }
-- output {
--   17.05498170504345
-- }
entry objective [n][g][u][m][k] (lookups: i64) (weights: [5]f64) (grids: [n][g][6]f64) (union: [u]f64)
                                (places: [u][n]i32) (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): f64 =
  total lookups weights grids union places sizes members densities

-- By all grid points, their energies among them.
-- ==
-- entry: gradient
-- input {
--   4i64 [1.0, 2.0, 3.0, 4.0, 5.0] [[[0.3, 0.09, 0.66, 0.93, 0.21, 0.63], [0.37, 0.74, 0.72, 0.22, 0.83, 0.66], [0.68,
--   0.82, 0.43, 0.76, 0.88, 0.1]], [[0.18, 0.39, 0.48, 0.15, 0.7, 0.29], [0.85, 0.28, 0.56, 0.4, 0.61, 0.2], [0.87,
--   0.75, 0.75, 0.57, 0.92, 0.21]]] [0.18, 0.3, 0.37, 0.68, 0.85, 0.87] [[0i32, 0i32], [0i32, 0i32], [1i32, 0i32],
--   [1i32, 0i32], [1i32, 1i32], [1i32, 1i32]] [1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32]
--   [[1i32], [0i32], [0i32], [0i32], [1i32], [0i32], [1i32], [0i32], [1i32], [1i32], [0i32], [0i32]] [[0.5], [0.7],
--   [0.4], [0.4], [0.7], [0.3], [0.7], [0.0], [0.3], [0.9], [0.5], [0.0]]
-- }
-- output {
--   [[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [2.757568475752316, 0.5775988023535258, 1.1551976047070516, 1.7327964070605772,
--   2.310395209414103, 2.8879940117676286], [4.4037218468283275, 0.9224011976464743, 1.8448023952929486,
--   2.7672035929394228, 3.6896047905858973, 4.612005988232371]], [[0.0031872799406472267, 0.21354775602337284,
--   0.4270955120467457, 0.6406432680701184, 0.8541910240934913, 1.0677387801168643], [0.0072604812533822,
--   0.4864522439766271, 0.9729044879532542, 1.4593567319298812, 1.9458089759065085, 2.4322612198831357], [0.0, 0.0,
--   0.0, 0.0, 0.0, 0.0]]]
-- }
entry gradient [n][g][u][m][k] (lookups: i64) (weights: [5]f64) (grids: [n][g][6]f64) (union: [u]f64)
                               (places: [u][n]i32) (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): [n][g][6]f64 =
  vjp (\grids -> total lookups weights grids union places sizes members densities) grids 1
