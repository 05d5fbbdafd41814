-- Special functions that random and stats need.  See docs/library.md.

-- The derivative of the logarithm of the gamma function.
def digamma (a: f64): f64 = jvp f64.lgamma a 1

-- Functions of R.t.
module mk_special (R: float) = {
  type t = R.t

  local def c (x: f64): t = R.f64 x
  local def ratio (x: t) (p: [8]f64) (q: [8]f64): t =
    let at (p: [8]f64) =
      R.(((((((c p[7] * x + c p[6]) * x + c p[5]) * x + c p[4]) * x + c p[3]) * x + c p[2]) * x + c p[1]) * x + c p[0])
    in R.(at p / at q)

  -- The x below which a normal number of mean 0 and variance 1 is with probability p; -inf at 0, inf at 1, NaN
  -- outside [0, 1].  Wichura, "Algorithm AS 241", Applied Statistics 37, 1988.
  def normal_quantile (p: t): t =
    let q = R.(p - c 0.5)
    let other = if R.(q < c 0) then p else R.(c 1 - p)
    in if R.(abs q <= c 0.425)
       then R.(q * ratio (c 0.180625 - q * q)
         [3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
          4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3]
         [1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
          3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3])
       else if R.(other > c 0)
       then
         let r = R.(sqrt (neg (log other)))
         let x =
           if R.(r <= c 5)
           then ratio R.(r - c 1.6)
             [1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
              1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2,
              7.74545014278341407640e-4]
             [1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
              1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
              1.05075007164441684324e-9]
           else ratio R.(r - c 5)
             [6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
              2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5,
              2.01033439929228813265e-7]
             [1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
              7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
              2.04426310338993978564e-15]
         in if R.(q < c 0) then R.neg x else x
       else if R.(other == c 0) then (if R.(q < c 0) then R.log other else R.(neg (log other)))
       else R.nan
}

open mk_special f64

-- The incomplete gamma function is x^a e^-x / gamma(a) times `lower`, and above a + 1 one minus that times `upper`.
-- Both go on after they have converged, as derivatives converge later; for an integer a the fraction even ends.
-- Press et al., Numerical Recipes, 6.2.
local def lower (a: f64) (x: f64): f64 =
  (loop (sum, term, n) = (1 / a, 1 / a, 1) while term > 1e-20 * sum do
     let term = term * (x / (a + n))
     in (sum + term, term, n + 1)).0

local def upper (a: f64) (x: f64): f64 =
  let b = x + 1 - a
  in (loop (h, b, c, d, n, end) = (1 / b, b, 1e300, 1 / b, 1, f64.inf) while n <= end do
        let an = -n * (n - a)
        let b = b + 2
        let d = 1 / (an * d + b)
        let c = b + an / c
        let change = c * d
        let end = if end == f64.inf && !(f64.abs (change - 1) >= 1e-15) then n + n / 2 + 60 else end
        in (h * change, b, c, d, n + 1, end)).0

-- x^a e^-x / gamma(a), of large a by Stirling's series, so that large numbers do not cancel.
local def weight (a: f64) (x: f64): f64 =
  if a < 100 then f64.exp (a * f64.log x - x - f64.lgamma a)
  else
    let relative = (x - a) / a
    let series = (1 - (1 / 30 - 1 / (105 * a * a)) / (a * a)) / (12 * a)
    in f64.sqrt (a / (2 * f64.pi)) * f64.exp (a * (f64.log1p relative - relative) - series)

-- The probability that a gamma number of shape a > 0 and rate 1 is at most x, and that it is above x.  NaN for other
-- shapes.  Of large shapes the cube root is normal (Wilson and Hilferty, 1931), to within 1 / a.
local def both (a: f64) (x: f64): (f64, f64) =
  if !(a > 0) || a == f64.inf || f64.isnan x then (f64.nan, f64.nan)
  else if x <= 0 then (0, 1)
  else if x == f64.inf then (1, 0)
  else if a > 1e12
  then
    let z = 3 * f64.sqrt (a / 2) * (f64.expm1 (f64.log1p ((x - a) / a) / 3) + 1 / (9 * a))
    in (f64.erfc (-z) / 2, f64.erfc z / 2)
  else
    let outside = weight a x
    in if x < a + 1 then let p = outside * lower a x in (p, 1 - p) else let q = outside * upper a x in (1 - q, q)

def gamma_p (a: f64) (x: f64): f64 = (both a x).0
def gamma_q (a: f64) (x: f64): f64 = (both a x).1

-- How the logarithm of a gamma number of shape a changes with a, if `gamma_p a` stays: implicit differentiation.
-- `x`: the number's logarithm.  Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018.
def gamma_log_slope (a: f64) (x: f64): f64 =
  let value = f64.exp x
  in if !(a > 0) || f64.isnan x then f64.nan
     else if a > 1e6
     then
       let z = (value - a) / f64.sqrt a
       in (1 + z / (2 * f64.sqrt a) - (z * z - 7) * z / (72 * a * f64.sqrt a)) / value
     else if value < a + 1
     then let (s, ds) = jvp2 (\a -> lower a value) a 1 in (digamma a - x) * s - ds
     else let (s, ds) = jvp2 (\a -> upper a value) a 1 in (x - digamma a) * s + ds

-- The incomplete beta function over x^a (1 - x)^b / (a B(a, b)), for x below (a + 1) / (a + b + 2); goes on after it
-- has converged, as above.  Press et al., Numerical Recipes, 6.4.
local def beta_fraction (a: f64) (b: f64) (x: f64): f64 =
  let d = 1 / (1 - (a + b) * x / (a + 1))
  in (loop (h, c, d, m, end) = (d, 1, d, 1, f64.inf) while m <= end do
        let even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        let d = 1 / (1 + even * d)
        let c = 1 + even / c
        let h = h * (c * d)
        let odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        let d = 1 / (1 + odd * d)
        let c = 1 + odd / c
        let change = c * d
        let end = if end == f64.inf && !(f64.abs (change - 1) >= 1e-15) then m + m / 2 + 20 else end
        in (h * change, c, d, m + 1, end)).0

-- The logarithm of x^a (1 - x)^b / B(a, b).
local def log_beta (a: f64) (b: f64): f64 = f64.lgamma a + f64.lgamma b - f64.lgamma (a + b)
local def beta_weight (a: f64) (b: f64) (x: f64): f64 = a * f64.log x + b * f64.log1p (-x) - log_beta a b

local def beta_density (a: f64) (b: f64) (x: f64): f64 =
  let left = if a == 1 && x == 0 then 0 else (a - 1) * f64.log x
  let right = if b == 1 && x == 1 then 0 else (b - 1) * f64.log1p (-x)
  in f64.exp (left + right - log_beta a b)

local def beta_value (a: f64) (b: f64) (x: f64): f64 =
  if !(a > 0 && b > 0 && x >= 0 && x <= 1) || a == f64.inf || b == f64.inf then f64.nan
  else if x == 0 then (x * f64.exp (-log_beta a b / a)) ** a / a
  else if x == 1 then 1 - ((1 - x) * f64.exp (-log_beta a b / b)) ** b / b
  else if x * (a + b + 2) < a + 1 then f64.exp (beta_weight a b x) * beta_fraction a b x / a
  else 1 - f64.exp (beta_weight a b x) * beta_fraction b a (1 - x) / b

-- The probability that a beta number of shapes a, b > 0 is at most x, for x from 0 to 1; NaN elsewhere.
def beta_inc (a: f64) (b: f64) (x: f64): f64 =
  with_vjp (\(a, b, x) -> (a, b, x, beta_value a b x))
           (\(a, b, x, _) (ab, bb, xb, g) ->
              let inside = x > 0 && x < 1
              in (ab + (if inside then g * jvp (\a -> beta_value a b x) a 1 else 0),
                  bb + (if inside then g * jvp (\b -> beta_value a b x) b 1 else 0),
                  xb + g * beta_density a b x))
           (a, b, x) |> (.3)

-- The modified Bessel functions of order k = 0, and of order 1, near 0 over x / 2; times e^-|x|.  By the power series,
-- whose terms have one sign, and of large x by Hankel's series.  Abramowitz and Stegun, 9.6.10 and 9.7.1.
local def bessel_near (k: f64) (x: f64): f64 =
  let q = x * x / 4
  let (sum, _) = loop (sum, term) = (1, 1) for i < 60 do
    let n = f64.i64 (i + 1)
    let term = term * q / (n * (n + k))
    in (sum + term, term)
  in f64.exp (-f64.abs x) * sum

local def bessel_far (k: f64) (x: f64): f64 =
  let y = f64.abs x
  let (sum, _) = loop (sum, term) = (1, 1) for i < 28 do
    let n = f64.i64 (i + 1)
    let odd = 2 * n - 1
    let term = term * (odd * odd - 4 * k * k) / (8 * n * y)
    in (sum + term, term)
  in sum / f64.sqrt (2 * f64.pi * y)

def bessel_i0e (x: f64): f64 = if f64.abs x <= 25 then bessel_near 0 x else bessel_far 0 x
def bessel_i1e (x: f64): f64 =
  if f64.abs x <= 25 then x / 2 * bessel_near 1 x else if x < 0 then -(bessel_far 1 x) else bessel_far 1 x

-- Hurwitz's zeta function, the sum of (q + n)^-x over n >= 0, for x > 1 and q > 0; NaN elsewhere, infinite for x = 1.
-- Euler and Maclaurin's formula; Abramowitz and Stegun, 23.1.30.
def zeta (x: f64) (q: f64): f64 =
  if x == 1 then f64.inf
  else if !(x > 1 && q > 0) then f64.nan
  else
    let first = f64.sum (map (\n -> (q + f64.i64 n) ** -x) (iota 12))
    let w = q + 12
    let (rest, _) = loop (sum, factor) = (0, x / w) for i < 9 do
      let bernoulli = [1.0/12, -1.0/720, 1.0/30240, -1.0/1209600, 1.0/47900160, -691.0/1307674368000,
                       1.0/74724249600, -3617.0/10670622842880000, 43867.0/5109094217170944000]
      let n = 2 * f64.i64 i
      in (sum + bernoulli[i] * factor, factor * (x + n + 1) * (x + n + 2) / (w * w))
    in first + w ** -x * (w / (x - 1) + 0.5 + rest)

-- x, as a number without derivatives.
def constant (x: f64): f64 =
  let e = i32.max 1 (i32.u64 (f64.to_bits x >> 52 & 0x7ff)) - 1075
  in f64.ldexp (f64.floor (f64.ldexp x (-e))) e
