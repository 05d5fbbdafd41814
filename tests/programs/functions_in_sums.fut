-- Functions in the payloads of constructors, and closures that share closures.
-- ==
-- entry: messages
-- input { 3f32 }
-- output { 8f32 6f32 3f32 }

type^ message = #apply (f32 -> f32) f32 | #compose (f32 -> f32) (f32 -> f32) f32 | #done f32

#[noinline]
def handle (m: message) : f32 =
  match m
  case #apply f x -> f x
  case #compose f g x -> g (f x)
  case #done x -> x

entry messages (x: f32) =
  (handle (#compose (+ 1) (* 2) x), handle (#apply (* 2) x), handle (#done x))

-- ==
-- entry: network
-- input { [1f32, 2f32] }
-- output { [4096f32, 8192f32] [4096f32, 4096f32] }

type^ layer = {forward: f32 -> f32, slope: f32 -> f32, both: f32 -> (f32, f32)}

def chain (a: layer) (b: layer) : layer =
  { forward = \x -> b.forward (a.forward x)
  , slope = \x -> a.slope x * b.slope (a.forward x)
  , both = \x -> (b.forward (a.forward x), a.slope x * b.slope (a.forward x))
  }

#[noinline]
def run [n] (net: layer) (xs: [n]f32) = unzip (map net.both xs)

def double: layer = {forward = (* 2), slope = \_ -> 2, both = \x -> (2 * x, 2)}
def twice (l: layer) = chain l l

entry network (xs: []f32) =
  let net = twice (twice double)
  in run (chain net (chain net net)) xs
