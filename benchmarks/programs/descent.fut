-- Gradient descent with a step that grows while it succeeds and halves when it fails, as GradBench's particle and
-- saddle prescribe it; and gradients by forward and reverse mode, for it to use.

def norm [n] (x: [n]f64): f64 = f64.sqrt (f64.sum (map (\a -> a * a) x))

def minus [n] (x: [n]f64) (y: [n]f64): [n]f64 = map2 (-) x y

-- Where f is smallest, near x.  `grad` yields the gradient of a function at a point.
def argmin [n] (grad: ([n]f64 -> f64) -> [n]f64 -> [n]f64) (f: [n]f64 -> f64) (x: [n]f64): [n]f64 =
  let tolerance = 1e-5
  let (x, _, _, _, _, _) =
    loop (x, fx, g, step, successes, go) = (x, f x, grad f x, 1e-5, 0i32, true) while go do
      if norm g <= tolerance then (x, fx, g, step, successes, false)
      else if successes == 10 then (x, fx, g, 2 * step, 0, true)
      else let next = minus x (map (step *) g)
           in if norm (minus x next) <= tolerance then (x, fx, g, step, successes, false)
              else let fnext = f next
                   in if fnext < fx then (next, fnext, grad f next, step, successes + 1, true)
                      else (x, fx, g, step / 2, 0, true)
  in x

def argmax [n] (grad: ([n]f64 -> f64) -> [n]f64 -> [n]f64) (f: [n]f64 -> f64) (x: [n]f64): [n]f64 =
  argmin grad (\x -> -(f x)) x

def reverse_gradient [n] (f: [n]f64 -> f64) (x: [n]f64): [n]f64 = vjp f x 1

def forward_gradient [n] (f: [n]f64 -> f64) (x: [n]f64): [n]f64 =
  tabulate n (\i -> jvp f x (tabulate n (\j -> f64.bool (i == j))))
