-- A normalizing flow of affine coupling layers (Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP,
-- ICLR 2017): each layer scales and shifts one half of a point by a network of the other half, then the halves change
-- places.  Layers can be taken back, so with `reversible=True` none of their inputs is kept.
-- ==
-- entry: loss gradient
-- input { [[[0.5, -0.25], [0.0, 1.0]], [[-0.5, 0.75], [0.25, 0.0]]] [[0.1, -0.2], [0.0, 0.3]]
--         [[[0.3, 0.1], [0.2, -0.4]], [[-0.1, 0.6], [0.5, 0.2]]] [[0.0, 0.1], [-0.2, 0.0]]
--         [[[0.7, -0.3], [0.1, 0.2]], [[0.4, 0.0], [-0.6, 0.3]]] [[0.1, 0.0], [0.0, -0.1]]
--         [[0.5, -1.0], [1.5, 0.25], [0.0, 2.0]] [[1.0, 0.5], [-0.5, 0.0], [0.75, -1.25]] }

-- Weights and offsets of a layer: into h hidden units, and from these to logarithms of scales and to shifts of d
-- coordinates.
type layer [d][h] = {hidden: [h][d]f64, hidden_at: [h]f64, scale: [d][h]f64, scale_at: [d]f64, shift: [d][h]f64,
                     shift_at: [d]f64}

def affine [n][m] (weights: [n][m]f64) (offsets: [n]f64) (x: [m]f64) : [n]f64 =
  map2 (\row o -> o + f64.sum (map2 (*) row x)) weights offsets

-- The other half, and the logarithm of the determinant.
def couple [d][h] (w: layer [d][h]) (half: [d]f64) (other: [d]f64) : ([d]f64, f64) =
  let units = map f64.tanh (affine w.hidden w.hidden_at half)
  let logs = map f64.tanh (affine w.scale w.scale_at units)
  let shifts = affine w.shift w.shift_at units
  in (map3 (\x s t -> x * f64.exp s + t) other logs shifts, f64.sum logs)

-- The mean of the negative log-density of the points (without the normal density's constant), each given by halves.
def negative_log_density [l][d][h][n] (layers: [l](layer [d][h])) (first: [n][d]f64) (second: [n][d]f64) : f64 =
  let (first, second, logs) =
    loop (first, second, logs) = (first, second, replicate n 0) for w in layers do
      let (moved, more) = unzip (map2 (couple w) first second)
      in (moved, first, map2 (+) logs more)
  let squares (x: [d]f64) = f64.sum (map (\a -> a * a) x)
  in f64.sum (map3 (\a b log -> 0.5 * (squares a + squares b) - log) first second logs) / f64.i64 n

entry loss [l][d][h][n] (hidden: [l][h][d]f64) (hidden_at: [l][h]f64) (scale: [l][d][h]f64) (scale_at: [l][d]f64)
                        (shift: [l][d][h]f64) (shift_at: [l][d]f64) (first: [n][d]f64) (second: [n][d]f64) : f64 =
  let layers = tabulate l (\i -> {hidden = hidden[i], hidden_at = hidden_at[i], scale = scale[i],
                                  scale_at = scale_at[i], shift = shift[i], shift_at = shift_at[i]})
  in negative_log_density layers first second

entry gradient [l][d][h][n] (hidden: [l][h][d]f64) (hidden_at: [l][h]f64) (scale: [l][d][h]f64) (scale_at: [l][d]f64)
                            (shift: [l][d][h]f64) (shift_at: [l][d]f64) (first: [n][d]f64) (second: [n][d]f64)
                            : ([l][h][d]f64, [l][h]f64, [l][d][h]f64, [l][d]f64, [l][d][h]f64, [l][d]f64) =
  vjp (\(a, b, c, d, e, f) -> loss a b c d e f first second) (hidden, hidden_at, scale, scale_at, shift, shift_at) 1
