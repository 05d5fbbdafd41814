-- ADBench's LSTM with diagonal weights (Srajer, Kukelova and Fitzgibbon 2018): l layers of b bits read a text
-- character by character; the objective is the mean negative log likelihood of each next character.
--
-- Rows 2i and 2i + 1 of the main parameters are layer i's weights and biases, each a part of b for the forget, input
-- and output gate and for the change; rows 2i and 2i + 1 of the state are its hidden and cell state.  The extra
-- parameters weigh the input and the output, and shift the output.

def sigmoid (x: f64): f64 = 1 / (1 + f64.exp (-x))

-- One layer's new hidden and cell state.
def cell [b] (w: [4][b]f64) (bias: [4][b]f64) (hidden: [b]f64) (state: [b]f64) (x: [b]f64): (*[b]f64, *[b]f64) =
  let forget = map3 (\w c x -> sigmoid (x * w + c)) w[0] bias[0] x
  let input = map3 (\w c h -> sigmoid (h * w + c)) w[1] bias[1] hidden
  let output = map3 (\w c x -> sigmoid (x * w + c)) w[2] bias[2] x
  let change = map3 (\w c h -> f64.tanh (h * w + c)) w[3] bias[3] hidden
  let state = map4 (\f s i c -> s * f + i * c) forget state input change
  in (map2 (\o s -> o * f64.tanh s) output state, state)

-- The logarithm of the sum of exponentials and two.
def normaliser [b] (y: [b]f64): f64 = f64.log (2 + f64.sum (map f64.exp y))

def loss [r][c][b] (main: [r][4 * b]f64) (extra: [3][b]f64) (state: [r][b]f64) (sequence: [c][b]f64): f64 =
  let l = r / 2
  let layers = unflatten (sized (l * 2) main) |> map (map unflatten)
  let step s x =
    loop (s: *[l][2][b]f64, x) = (copy s, map2 (*) x extra[0]) for i < l do
      let (hidden, state) = cell layers[i, 0] layers[i, 1] s[i, 0] s[i, 1] x
      in (s with [i] = [hidden, state], hidden)
  let (_, total) =
    loop (s, total) = (unflatten (sized (l * 2) state), 0) for t < c - 1 do
      let (s, x) = step s sequence[t]
      let y = map3 (\x w c -> x * w + c) x extra[1] extra[2]
      let z = normaliser y
      in (s, total + f64.sum (map2 (\y gold -> gold * (y - z)) y sequence[t + 1]))
  in -total / f64.i64 ((c - 1) * b)

-- ==
-- entry: objective
-- input {
--   [[-0.21, -0.16, 0.54, 0.21, 0.36, -0.65, -0.13, 0.78], [1.49, -1.26, 1.51, 1.35, 0.78, 0.26, -0.31, 1.46]]
--   [[1.96, 1.8], [1.32, 0.36], [-1.21, -0.0]] [[0.66, -1.29], [0.4, 0.43]] [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
-- }
-- output {
--   0.270125078667829
-- }
entry objective [r][c][b] (main: [r][4 * b]f64) (extra: [3][b]f64) (state: [r][b]f64) (sequence: [c][b]f64): f64 =
  loss main extra state sequence

-- ==
-- entry: gradient
-- input {
--   [[-0.21, -0.16, 0.54, 0.21, 0.36, -0.65, -0.13, 0.78], [1.49, -1.26, 1.51, 1.35, 0.78, 0.26, -0.31, 1.46]]
--   [[1.96, 1.8], [1.32, 0.36], [-1.21, -0.0]] [[0.66, -1.29], [0.4, 0.43]] [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
-- }
-- output {
--   [[0.001566046689095782, -0.0, -0.00028930151984960065, -6.438184203605422e-05, 1.4382203389860564e-05, -0.0,
--   0.004929664492398948, 0.0034870619046210353], [0.0007384319577367349, -0.0016421471538869562,
--   -0.00111413453325418, -0.003043947846602302, -0.0012791090950943454, -0.010179238687705343,
--   0.01878684484124094, -0.005091915693917718]] [[-0.0001651490874947778, -0.0], [-0.0031006025038483103,
--   -0.06363319095061597], [0.017412674327633982, -0.1651435841207634]]
-- }
entry gradient [r][c][b] (main: [r][4 * b]f64) (extra: [3][b]f64) (state: [r][b]f64)
                         (sequence: [c][b]f64): ([r][4 * b]f64, [3][b]f64) =
  vjp (\(main, extra) -> loss main extra state sequence) (main, extra) 1
