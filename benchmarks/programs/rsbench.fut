-- Macroscopic cross sections for neutrons by the multipole method, after the proxy application RSBench (Tramm et al.
-- 2014): each lookup draws an energy and a material, and sums up what the material's nuclides contribute: a
-- background, and the resonances (poles) of the window that holds the energy, broadened by temperature.
--
-- A pole has four complex numbers (where it lies; residues for the total, absorption and fission cross section) and an
-- angular momentum; a window has the coefficients of its background and which poles are its own.

import "lcg"

type complex = {re: f64, im: f64}

def scaled (s: f64) (a: complex): complex = {re = s * a.re, im = s * a.im}
def plus (a: complex) (b: complex): complex = {re = a.re + b.re, im = a.im + b.im}
def times (a: complex) (b: complex): complex = {re = a.re * b.re - a.im * b.im, im = a.re * b.im + a.im * b.re}

def over (a: complex) (b: complex): complex =
  let s = 1 / (b.re * b.re + b.im * b.im)
  in {re = s * (a.re * b.re + a.im * b.im), im = s * (a.im * b.re - a.re * b.im)}

-- Faddeeva's function far from 0: Hermite's quadrature with four points (Gautschi 1970).
def faddeeva_far (z: complex): complex =
  let root = f64.sqrt 6
  let term sign = let b = (3 + sign * root) / 2
                  in over {re = (3 - sign * root) / 6, im = 0} (plus (times z z) {re = -b, im = 0})
  in scaled (1 / f64.sqrt f64.pi) (times {re = -z.im, im = z.re} (plus (term (-1)) (term 1)))

-- The same near 0: a Fourier series with ten terms on an interval of half-length 12 (Abrarov and Quine 2011).
def faddeeva_near (z: complex): complex =
  let tau = 12
  let grow = f64.exp (-tau * z.im)
  let e = {re = grow * f64.cos (tau * z.re), im = grow * f64.sin (tau * z.re)}
  let square = scaled (tau * tau) (times z z)
  let series = loop s = {re = 0, im = 0} for i < 10 do
    let n = f64.i64 (i + 1)
    let (weight, at) = (f64.exp (-((n * f64.pi / tau) ** 2)), (n * f64.pi) ** 2)
    let sign = if i % 2 == 0 then -1 else 1
    in plus s (scaled weight (over {re = sign * e.re - 1, im = sign * e.im} {re = at - square.re, im = -square.im}))
  in plus (over {re = e.im, im = 1 - e.re} (scaled tau z)) (scaled (2 * tau) (times {re = -z.im, im = z.re} series))

def faddeeva (z: complex): complex =
  if z.re * z.re + z.im * z.im < 36 then faddeeva_near z else faddeeva_far z

-- exp (-2 i phi) of a hard sphere's phase shift phi, for the momenta 0 to 3.
def shifts (radii: [4]f64) (energy: f64): [4]complex =
  let rho l = radii[l] * f64.sqrt energy
  let turned phi: complex = {re = f64.cos (2 * phi), im = -f64.sin (2 * phi)}
  let (p, d, f) = (rho 1, rho 2, rho 3)
  in [turned (rho 0),
      turned (p - f64.atan p),
      turned (d - f64.atan (3 * d / (3 - d * d))),
      turned (f - f64.atan (f * (15 - f * f) / (15 - 6 * f * f)))]

-- The weighted sum of all cross sections (total, absorption, fission, elastic) of the lookups.  Nuclide i has counts[i]
-- windows that share the energies from 0 to 1; window w of it has the poles from spans[i, w, 0] to before
-- spans[i, w, 1].  Material m consists of the nuclides members[m, j] with the densities[m, j], for j < sizes[m].
def total [n][p][w][m][k] (lookups: i64) (weights: [4]f64) (poles: [n][p][4][2]f64) (momenta: [n][p]i32)
                          (windows: [n][w][3]f64) (spans: [n][w][2]i32) (counts: [n]i32) (radii: [n][4]f64)
                          (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): f64 =
  let micro (i: i64) (energy: f64): (f64, f64, f64) =
    let w = i64.min (i64.i32 counts[i] - 1) (i64.f64 (energy * f64.i32 counts[i]))
    let factors = shifts radii[i] energy
    let (first, end) = (i64.i32 spans[i, w, 0], i64.i32 spans[i, w, 1])
    let background = windows[i, w]
    in loop (total, absorption, fission) = (energy * background[0], energy * background[1], energy * background[2])
       for j < end - first do
         let pole = poles[i, first + j]
         let residue r = {re = pole[r, 0], im = pole[r, 1]}
         let broadened = faddeeva {re = 0.5 * (energy - pole[0, 0]), im = -0.5 * pole[0, 1]}
         let shifted = times broadened factors[momenta[i, first + j]]
         in (total + (times (residue 1) shifted).re, absorption + (times (residue 2) broadened).re,
             fission + (times (residue 3) broadened).re)
  let lookup i =
    let (energy, material) = drawn i
    let (t, a, f) =
      loop (t, a, f) = (0, 0, 0) for j < i64.i32 sizes[material] do
        let density = densities[material, j]
        let (total, absorption, fission) = micro (i64.i32 members[material, j]) energy
        in (t + density * total, a + density * absorption, f + density * fission)
    in weights[0] * t + weights[1] * a + weights[2] * f + weights[3] * (t - a)
  in f64.sum (tabulate lookups lookup)

-- ==
-- entry: objective
-- input {
--   4i64 [1.0, 2.0, 3.0, 4.0] [[[[0.4, -0.3], [142.0, 0.2], [96.1, 0.3], [113.1, 0.7]], [[33.4, -126.6], [100.3, 0.7],
--   [125.1, 0.4], [115.7, 0.9]]], [[[15.6, -129.6], [60.1, 0.5], [22.3, 0.7], [44.5, 0.9]], [[42.0, -85.7], [60.9,
--   0.6], [30.0, 0.2], [113.9, 0.8]]]] [[1i32, 2i32], [3i32, 3i32]] [[[0.2, 0.9, 0.2]], [[1.0, 0.6, 0.6]]] [[[0i32,
--   2i32]], [[0i32, 2i32]]] [1i32, 1i32] [[1.0, 0.8, 0.8, 0.1], [0.4, 0.1, 0.2, 0.2]] [1i32, 1i32, 1i32, 1i32, 1i32,
--   1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32] [[1i32], [0i32], [0i32], [0i32], [0i32], [0i32], [1i32], [0i32], [1i32],
--   [1i32], [0i32], [0i32]] [[0.5], [0.7], [0.4], [0.4], [0.7], [0.3], [0.7], [0.0], [0.3], [0.9], [0.5], [0.0]]
-- }
-- output {
--   1606.59407252146
-- }
entry objective [n][p][w][m][k] (lookups: i64) (weights: [4]f64) (poles: [n][p][4][2]f64) (momenta: [n][p]i32)
                                (windows: [n][w][3]f64) (spans: [n][w][2]i32) (counts: [n]i32) (radii: [n][4]f64)
                                (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): f64 =
  total lookups weights poles momenta windows spans counts radii sizes members densities

-- By all poles.
-- ==
-- entry: gradient
-- input {
--   4i64 [1.0, 2.0, 3.0, 4.0] [[[[0.4, -0.3], [142.0, 0.2], [96.1, 0.3], [113.1, 0.7]], [[33.4, -126.6], [100.3, 0.7],
--   [125.1, 0.4], [115.7, 0.9]]], [[[15.6, -129.6], [60.1, 0.5], [22.3, 0.7], [44.5, 0.9]], [[42.0, -85.7], [60.9,
--   0.6], [30.0, 0.2], [113.9, 0.8]]]] [[1i32, 2i32], [3i32, 3i32]] [[[0.2, 0.9, 0.2]], [[1.0, 0.6, 0.6]]] [[[0i32,
--   2i32]], [[0i32, 2i32]]] [1i32, 1i32] [[1.0, 0.8, 0.8, 0.1], [0.4, 0.1, 0.2, 0.2]] [1i32, 1i32, 1i32, 1i32, 1i32,
--   1i32, 1i32, 1i32, 1i32, 1i32, 1i32, 1i32] [[1i32], [0i32], [0i32], [0i32], [0i32], [0i32], [1i32], [0i32], [1i32],
--   [1i32], [0i32], [0i32]] [[0.5], [0.7], [0.4], [0.4], [0.7], [0.3], [0.7], [0.0], [0.3], [0.9], [0.5], [0.0]]
-- }
-- output {
--   [[[[42.57582151037427, 815.7608561079189], [9.319135308998565, 0.28748690285025974], [-3.7081510300203395,
--   0.357072046653139], [5.562226545030509, -0.5356080699797086]], [[-0.041710044334050705, 0.07615080220512715],
--   [0.09177449816581225, 0.02414223664887549], [-0.036745168978943296, -0.00952141717901385], [0.055117753468414944,
--   0.014282125768520774]]], [[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0],
--   [0.0, 0.0]]]]
-- }
entry gradient [n][p][w][m][k] (lookups: i64) (weights: [4]f64) (poles: [n][p][4][2]f64) (momenta: [n][p]i32)
                               (windows: [n][w][3]f64) (spans: [n][w][2]i32) (counts: [n]i32) (radii: [n][4]f64)
                               (sizes: [m]i32) (members: [m][k]i32) (densities: [m][k]f64): [n][p][4][2]f64 =
  vjp (\poles -> total lookups weights poles momenta windows spans counts radii sizes members densities) poles 1
