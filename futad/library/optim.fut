-- Minimisers of functions of vectors, and linear systems that are known by their products.  See docs/library.md.
--
-- The function to be minimised comes first and the point to start from last.  Gradients are taken by `vjp`.

local def dot [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) xs ys)
local def norm [n] (xs: [n]f64): f64 = f64.sqrt (dot xs xs)
local def along [n] (x: [n]f64) (s: f64) (d: [n]f64): [n]f64 = map2 (\a b -> a + s * b) x d

-- The value, and the gradient; the Hessian at x times d.
def value_and_gradient [n] (f: [n]f64 -> f64) (x: [n]f64): (f64, [n]f64) = vjp2 f x 1
def gradient [n] (f: [n]f64 -> f64) (x: [n]f64): [n]f64 = vjp f x 1
def hessian_times [n] (f: [n]f64 -> f64) (x: [n]f64) (d: [n]f64): [n]f64 = jvp (gradient f) x d

-- Where a minimiser ended; `converged`: no component of the gradient is above the tolerance.
type result [n] = {x: [n]f64, value: f64, gradient: [n]f64, iterations: i64, converged: bool}

local def small [n] (tolerance: f64) (g: [n]f64): bool = all (\v -> f64.abs v <= tolerance) g

-- `steps` steps down the gradient, of length `rate` times the gradient.
def gradient_descent [n] (f: [n]f64 -> f64) (rate: f64) (steps: i64) (x: [n]f64): [n]f64 =
  loop x = copy x for _i < steps do along x (-rate) (gradient f x)

-- Kingma and Ba, "Adam", ICLR 2015.
type adam_options = {rate: f64, beta1: f64, beta2: f64, epsilon: f64}
type adam_state [n] = {x: [n]f64, first: [n]f64, second: [n]f64, step: i64}

def adam_options (rate: f64): adam_options = {rate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8}
def adam_start [n] (x: [n]f64): adam_state [n] = {x, first = map (const 0) x, second = map (const 0) x, step = 0}

-- One step, for loops of one's own: the gradient g was taken at s.x.
def adam_step [n] (o: adam_options) (g: [n]f64) (s: adam_state [n]): adam_state [n] =
  let step = s.step + 1
  let first = map2 (\m g -> o.beta1 * m + (1 - o.beta1) * g) s.first g
  let second = map2 (\v g -> o.beta2 * v + (1 - o.beta2) * g * g) s.second g
  let (b1, b2) = (1 - o.beta1 ** f64.i64 step, 1 - o.beta2 ** f64.i64 step)
  -- With nothing but zeros so far the root has no derivative; such a component stays.
  let change m v = if v == 0 then 0 else o.rate * (m / b1) / (f64.sqrt (v / b2) + o.epsilon)
  in {x = map3 (\x m v -> x - change m v) s.x first second, first, second, step}

-- `steps` steps from x; of a function that changes, `f i` is that of step i (a batch, say).
def adam_each [n] (f: i64 -> [n]f64 -> f64) (o: adam_options) (steps: i64) (x: [n]f64): [n]f64 =
  (loop s = adam_start (copy x) for i < steps do adam_step o (gradient (f i) s.x) s).x
def adam [n] (f: [n]f64 -> f64) (o: adam_options) (steps: i64) (x: [n]f64): [n]f64 = adam_each (\_ -> f) o steps x

-- Along d from x, where f has the value v and the slope s < 0: a step that fulfils the weak conditions of Wolfe, what f is
-- there, and whether there is one.  Lewis and Overton, "Nonsmooth optimization via quasi-Newton methods", 2013, with
-- steps between bounds from the parabola where that is well inside.
local def line_search [n] (f: [n]f64 -> f64) (x: [n]f64) (v: f64) (s: f64) (d: [n]f64) (first: f64)
  : (f64, f64, [n]f64, bool) =
  let (step, value, g, _, _, ok, _) =
    loop (step, value, g, low, high, ok, tries) = (first, v, map (const 0) x, 0, f64.inf, false, 0i64)
    while !ok && tries < 60 do
      let (value, g) = value_and_gradient f (along x step d)
      -- Near the minimum differences of values are rounding; then slopes decide (Hager and Zhang, 2005).
      let near = value <= v + 1e-10 * f64.abs v && dot g d <= -0.8 * s
      let down = value <= v + 1e-4 * step * s || near
      let flat = dot g d >= 0.9 * s
      in if down && flat then (step, value, g, low, high, true, tries + 1)
         else if !down
         then
           let parabola = low + -s * (step - low) ** 2 / (2 * (value - v - s * (step - low)))
           let inside = low == 0 && parabola > 0.1 * step && parabola < 0.9 * step
           in (if inside then parabola else (low + step) / 2, value, g, low, step, false, tries + 1)
         else (if f64.isinf high then 2 * step else (step + high) / 2, value, g, step, high, false, tries + 1)
  in (step, value, g, ok)

-- Which quasi-Newton method: pairs that are remembered, tolerance of the gradient's largest component, iterations.
type lbfgs_options = {memory: i64, tolerance: f64, iterations: i64}
def lbfgs_options: lbfgs_options = {memory = 10, tolerance = 1e-8, iterations = 1000}

-- Limited-memory BFGS.  Nocedal and Wright, Numerical Optimization, 7.2.
def lbfgs [n] (f: [n]f64 -> f64) (o: lbfgs_options) (x: [n]f64): result [n] =
  let m = o.memory
  let (value, g) = value_and_gradient f x
  let (x, value, gradient, iterations, converged, _, _, _, _, _) =
    loop (x, value, g, k, converged, stuck, ss, ys, kept, rhos) =
      (copy x, value, g, 0, small o.tolerance g, false, replicate m (map (const 0) x), replicate m (map (const 0) x), 0,
       replicate m 0)
    while !converged && !stuck && k < o.iterations do
      let have = i64.min kept m
      -- The newest pair is at kept - 1, modulo m.
      let (q, alphas) =
        loop (q, alphas) = (g, replicate m 0) for i < have do
          let j = (kept - 1 - i) % m
          let alpha = rhos[j] * dot ss[j] q
          in (along q (-alpha) ys[j], alphas with [j] = alpha)
      let newest = (kept - 1) % i64.max 1 m
      let scale = if have == 0 then 1 / f64.max 1 (norm g) else 1 / (rhos[newest] * dot ys[newest] ys[newest])
      let r =
        loop r = map (* scale) q for i < have do
          let j = (kept - have + i) % m
          in along r (alphas[j] - rhos[j] * dot ys[j] r) ss[j]
      let slope = -dot g r
      -- A direction that does not descend is replaced by the gradient, and what was remembered forgotten.
      let good = slope < 0
      let d = if good then map f64.neg r else map f64.neg g
      let (step, value', g', ok) = line_search f x value (if good then slope else -dot g g) d 1
      let s = map (* step) d
      let y = map2 (-) g' g
      let sy = dot s y
      let curved = ok && m > 0 && sy > 1e-16 * dot y y
      let kept = if good then kept else 0
      let at = kept % i64.max 1 m
      let (ss, ys, rhos) =
        if curved then (ss with [at] = s, ys with [at] = y, rhos with [at] = 1 / sy) else (ss, ys, rhos)
      in if ok
         then (map2 (+) x s, value', g', k + 1, small o.tolerance g', false, ss, ys, kept + i64.bool curved, rhos)
         else (x, value, g, k, false, !good || kept == 0, ss, ys, 0, rhos)
  in {x, value, gradient, iterations, converged}

-- x with `a x = b`, for a symmetric positive definite linear function a, to |b - a x| <= tolerance |b|; from 0, with at
-- most so many products.  Hestenes and Stiefel, 1952.
local def cg_from_zero [n] (a: [n]f64 -> [n]f64) (tolerance: f64) (products: i64) (b: [n]f64): [n]f64 =
  let goal = tolerance * tolerance * dot b b
  let (x, _, _, _, _) =
    loop (x, r, p, rr, k) = (map (const 0) b, copy b, copy b, dot b b, 0) while rr > goal && k < products do
      let ap = a p
      let alpha = rr / dot p ap
      let r = along r (-alpha) ap
      let rr' = dot r r
      in (along x alpha p, r, along r (rr' / rr) p, rr', k + 1)
  in x

-- The same of a function that depends on parameters w, which may be anything: reverse mode solves one more system (the
-- derivative of the solution, whatever the iterations were), for b and w.
def cg_with [n] 'w (a: w -> [n]f64 -> [n]f64) (tolerance: f64) (products: i64) (w: w) (b: [n]f64): [n]f64 =
  with_vjp (\(w, b) -> cg_from_zero (a w) tolerance products b)
           (\x adjoint ->
              let y = cg_from_zero (a w) tolerance products adjoint
              in (vjp (\w -> a w x) w (map f64.neg y), y))
           (w, b)
def cg [n] (a: [n]f64 -> [n]f64) (tolerance: f64) (products: i64) (b: [n]f64): [n]f64 =
  cg_from_zero a tolerance products b

-- Newton's method: directions by conjugate gradients on products with the Hessian, which stop where it is not convex.
-- Nocedal and Wright, 7.1.
type newton_options = {tolerance: f64, iterations: i64}
def newton_options: newton_options = {tolerance = 1e-8, iterations = 200}

def newton_cg [n] (f: [n]f64 -> f64) (o: newton_options) (x: [n]f64): result [n] =
  let direction (x: [n]f64) (g: [n]f64): [n]f64 =
    let size = norm g
    let goal = f64.min 0.5 (f64.sqrt size) * size
    let (d, _, _, _, _, _) =
      loop (d, r, p, rr, k, more) = (map (const 0) g, copy g, map f64.neg g, dot g g, 0, true)
      while more && f64.sqrt rr > goal && k < 2 * n do
        let hp = hessian_times f x p
        let curvature = dot p hp
        in if curvature <= 0
           then (if k == 0 then map f64.neg g else d, r, p, rr, k, false)
           else
             let alpha = rr / curvature
             let r = along r alpha hp
             let rr' = dot r r
             in (along d alpha p, r, map2 (\p r -> rr' / rr * p - r) p r, rr', k + 1, true)
    in d
  let (value, g) = value_and_gradient f x
  let (x, value, gradient, iterations, converged, _) =
    loop (x, value, g, k, converged, stuck) = (copy x, value, g, 0, small o.tolerance g, false)
    while !converged && !stuck && k < o.iterations do
      let d = direction x g
      let (step, value', g', ok) = line_search f x value (dot g d) d 1
      in if ok then (along x step d, value', g', k + 1, small o.tolerance g', false) else (x, value, g, k, false, true)
  in {x, value, gradient, iterations, converged}

-- Where `solve w x`, one of the minimisers above of `f w`, ends from x.  Reverse mode takes the derivative of the minimum
-- by w, by the implicit function theorem: one system with the Hessian, whatever the iterations were.
def minimum_with [n] 'w (f: w -> [n]f64 -> f64) (solve: w -> [n]f64 -> [n]f64) (w: w) (x: [n]f64): [n]f64 =
  let solution =
    with_vjp (\w -> solve w x)
             (\best adjoint ->
                let y = cg_from_zero (hessian_times (f w) best) 1e-12 (10 * n) adjoint
                in vjp (\w -> gradient (f w) best) w (map f64.neg y))
  in solution w
