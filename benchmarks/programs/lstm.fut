-- A batched long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates), as in "AD for an Array
-- Language with Nested Parallelism" (Schenck, Ronning, Henriksen and Oancea 2022): sequences of t steps, batches of b,
-- inputs of size d, hidden states of size h, predictions of size o; the loss is the mean squared error.
--
-- The four gates are, in this order, input, forget, cell and output.

def sigmoid (x: f32): f32 = 1 / (1 + f32.exp (-x))

def dot [n] (x: [n]f32) (y: [n]f32): f32 =
  f32.sum (map2 (*) x y)

-- w x + bias
def affine [m][n] (w: [m][n]f32) (bias: [m]f32) (x: [n]f32): [m]f32 =
  map2 (\row c -> c + dot row x) w bias

-- One step for one member of the batch; z holds the inputs' part of the gates.  The new hidden and cell states.
def cell [h] (wh: [4][h][h]f32) (z: [4][h]f32) (hidden: [h]f32) (state: [h]f32): ([h]f32, [h]f32) =
  let gates = map2 (\w zs -> affine w zs hidden) wh z
  let state = map4 (\i f g c -> sigmoid f * c + sigmoid i * f32.tanh g) gates[0] gates[1] gates[2] state
  in (map2 (\o c -> sigmoid o * f32.tanh c) gates[3] state, state)

def loss [t][b][d][h][o] (wx: [4][h][d]f32) (wh: [4][h][h]f32) (bias: [4][h]f32) (wy: [o][h]f32) (by: [o]f32)
                         (hidden0: [b][h]f32) (state0: [b][h]f32)
                         (inputs: [t][b][d]f32) (targets: [t][b][o]f32): f32 =
  -- The inputs' share of the gates depends on no state: all steps at once, and not again in the return sweep.
  let zs = map (map (\x -> map2 (\w c -> affine w c x) wx bias)) inputs
  let (_, _, total) =
    loop (hidden, state, total) = (hidden0, state0, 0) for i < t do
      let (hidden, state) = unzip (map3 (cell wh) zs[i] hidden state)
      let errors = map2 (\hs ys -> f32.sum (map2 (\p y -> (p - y) * (p - y)) (affine wy by hs) ys))
                        hidden targets[i]
      in (hidden, state, total + f32.sum errors)
  in total / f32.i64 (t * b * o)

-- ==
-- entry: objective
-- input {
--   [[[0.08f32, 1.36f32], [-1.55f32, 0.86f32]], [[0.12f32, -0.64f32], [2.0f32, 0.76f32]], [[-1.2f32, 0.07f32],
--   [0.58f32, -0.19f32]], [[0.68f32, -0.07f32], [0.67f32, 1.44f32]]] [[[-0.68f32, 0.2f32], [-0.46f32, 0.13f32]],
--   [[-1.19f32, -0.58f32], [-0.2f32, 0.9f32]], [[1.15f32, -1.32f32], [-0.79f32, 0.65f32]], [[-1.99f32,
--   -0.46f32], [-0.1f32, 1.26f32]]] [[0.69f32, -0.33f32], [-0.37f32, -0.25f32], [1.52f32, -0.43f32], [-0.3f32,
--   0.35f32]] [[-0.12f32, -0.2f32]] [-1.11f32] [[-0.01f32, -0.44f32], [1.17f32, 0.65f32]] [[-0.02f32, 0.67f32],
--   [-0.34f32, 1.05f32]] [[[-0.01f32, 0.58f32], [-1.29f32, 0.35f32]], [[-1.69f32, -2.04f32], [-0.3f32,
--   -0.9f32]], [[0.16f32, 2.24f32], [-0.83f32, -0.62f32]]] [[[0.21f32], [0.49f32]], [[-0.18f32], [-0.21f32]],
--   [[0.7f32], [0.52f32]]]
-- }
-- output { 1.8980006f32 }
entry objective [t][b][d][h][o] (wx: [4][h][d]f32) (wh: [4][h][h]f32) (bias: [4][h]f32) (wy: [o][h]f32) (by: [o]f32)
                                (hidden0: [b][h]f32) (state0: [b][h]f32)
                                (inputs: [t][b][d]f32) (targets: [t][b][o]f32): f32 =
  loss wx wh bias wy by hidden0 state0 inputs targets

-- ==
-- entry: gradient
-- input {
--   [[[0.08f32, 1.36f32], [-1.55f32, 0.86f32]], [[0.12f32, -0.64f32], [2.0f32, 0.76f32]], [[-1.2f32, 0.07f32],
--   [0.58f32, -0.19f32]], [[0.68f32, -0.07f32], [0.67f32, 1.44f32]]] [[[-0.68f32, 0.2f32], [-0.46f32, 0.13f32]],
--   [[-1.19f32, -0.58f32], [-0.2f32, 0.9f32]], [[1.15f32, -1.32f32], [-0.79f32, 0.65f32]], [[-1.99f32,
--   -0.46f32], [-0.1f32, 1.26f32]]] [[0.69f32, -0.33f32], [-0.37f32, -0.25f32], [1.52f32, -0.43f32], [-0.3f32,
--   0.35f32]] [[-0.12f32, -0.2f32]] [-1.11f32] [[-0.01f32, -0.44f32], [1.17f32, 0.65f32]] [[-0.02f32, 0.67f32],
--   [-0.34f32, 1.05f32]] [[[-0.01f32, 0.58f32], [-1.29f32, 0.35f32]], [[-1.69f32, -2.04f32], [-0.3f32,
--   -0.9f32]], [[0.16f32, 2.24f32], [-0.83f32, -0.62f32]]] [[[0.21f32], [0.49f32]], [[-0.18f32], [-0.21f32]],
--   [[0.7f32], [0.52f32]]]
-- }
-- output {
--   [[[-0.00455648f32, -0.0009924932f32], [0.025550663f32, 0.0011364497f32]], [[-0.0018385601f32,
--   -0.0011745329f32], [-0.0053353743f32, 0.0010764098f32]], [[0.00018503012f32, 0.004221722f32],
--   [-0.017962642f32, 0.039902907f32]], [[-0.005219971f32, 0.025283616f32], [0.0247015f32, -0.0016266883f32]]]
--   [[[0.0023739398f32, -0.00095338013f32], [-0.011093306f32, 0.0015227991f32]], [[0.00036035752f32,
--   -0.00065006036f32], [0.0044006533f32, -0.0013634865f32]], [[0.00013629944f32, -0.00034559582f32],
--   [0.009285116f32, -0.006363542f32]], [[0.0030359707f32, -0.004877375f32], [-0.017333537f32,
--   -0.0065067527f32]]] [[0.008448442f32, -0.035570133f32], [0.00358527f32, 0.009770922f32], [0.0026063565f32,
--   0.055622928f32], [0.030388586f32, -0.027054444f32]] [[-0.47117335f32, 0.7016308f32]] [-2.6840146f32]
-- }
entry gradient [t][b][d][h][o] (wx: [4][h][d]f32) (wh: [4][h][h]f32) (bias: [4][h]f32) (wy: [o][h]f32) (by: [o]f32)
                               (hidden0: [b][h]f32) (state0: [b][h]f32)
                               (inputs: [t][b][d]f32) (targets: [t][b][o]f32)
                               : ([4][h][d]f32, [4][h][h]f32, [4][h]f32, [o][h]f32, [o]f32) =
  vjp (\(wx, wh, bias, wy, by) -> loss wx wh bias wy by hidden0 state0 inputs targets) (wx, wh, bias, wy, by) 1
