-- A loop whose steps are themselves loops, of lengths that vary from 1 to a power of two near l: the whole rotates x
-- by angles that depend on its norm, which stays, so that the gradient of half the squared norm is x itself.
-- The length of most inner loops is short; no two equal splits of the outer loop take equal time.
-- Source of the problem: Siskind and Pearlmutter, Divide-and-conquer checkpointing for arbitrary programs with no user
-- annotation, Optimization Methods and Software 33, 2018, section 6.
-- ==
-- entry: value
-- input { 7i64 3.0 [0.5, -1.0, 2.0, 0.25] } output { 2.65625 }

-- ==
-- entry: gradient
-- input { 7i64 3.0 [0.5, -1.0, 2.0, 0.25] } output { [0.5, -1.0, 2.0, 0.25] }
-- input { 53i64 3.0 [0.5, -1.0, 2.0, 0.25, 1.5] } output { [0.5, -1.0, 2.0, 0.25, 1.5] }

def log2_floor (l: i64) : i64 = i64.f64 (f64.floor (f64.log (f64.i64 l) / f64.log 2))

-- How often step i of l is repeated.
def repeats (l: i64) (phi: f64) (i: i64) : i64 =
  let scattered = 1 + 1013 * i64.f64 (f64.floor (3 ** phi)) * (i + 1) % l
  in 1 << (log2_floor l - log2_floor scattered)

-- Pairs of neighbours, the first of which is at `first`, rotated.
def rotate [n] (first: i64) (angle: f64) (x: [n]f64) : [n]f64 =
  let c = f64.cos angle
  let s = f64.sin angle
  let end = first + (n - first) / 2 * 2
  in tabulate n (\k ->
       if k < first || k >= end then x[k]
       else if (k - first) % 2 == 0 then c * x[k] - s * x[k + 1]
       else s * x[k - 1] + c * x[k])

def squared_norm [n] (x: [n]f64) : f64 = f64.sum (map (\a -> a * a) x)

def step [n] (x: [n]f64) : [n]f64 =
  let norm = f64.sqrt (squared_norm x)
  in rotate 1 (1.4 * norm) (rotate 0 (1.2 * norm) x)

def half_norm [n] (l: i64) (phi: f64) (x: [n]f64) : f64 =
  squared_norm (loop x for i < l do loop x for _j < repeats l phi i do step x) / 2

entry value [n] (l: i64) (phi: f64) (x: [n]f64) : f64 = half_norm l phi x

entry gradient [n] (l: i64) (phi: f64) (x: [n]f64) : [n]f64 = vjp (half_norm l phi) x 1

-- The number of steps taken.
entry steps (l: i64) (phi: f64) : i64 = i64.sum (map (repeats l phi) (iota l))
