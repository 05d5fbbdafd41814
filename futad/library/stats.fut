-- Log densities, distribution functions, sums of exponentials, and what describes samples.  See docs/library.md.
--
-- Parameters come first and the number last, as in `map (normal_logpdf mu sigma) xs`.  Outside of where a distribution
-- lives a density is 0 and its logarithm -inf; for parameters that it cannot have the result is NaN or without meaning.

local module special = import "futad/special"

-- Statistics of numbers of R.t.
module mk_stats (R: float) = {
  local module inverse = special.mk_special R
  type t = R.t

  local def c (x: f64): t = R.f64 x
  local def zero: t = R.i64 0
  local def none: t = R.(neg inf)
  local def half_log_2pi: t = R.f64 0.918938533204672741780329736405617639861
  local def dot [n] (xs: [n]t) (ys: [n]t): t = R.sum (map2 (R.*) xs ys)

  -- a log x and a log (1 + x), which are 0 for a = 0 whatever the logarithm is.
  local def times_log (a: t) (x: t): t = if R.(a == zero && x == zero) then zero else R.(a * log x)
  local def times_log1p (a: t) (x: t): t = if R.(a == zero && x == i64 (-1)) then zero else R.(a * log1p x)

  -- log (1 + x^2), also where the square alone is out of range.
  local def log1p_square (x: t): t =
    if R.(abs x < i64 1 / epsilon) then R.(log1p (x * x)) else R.(i64 2 * log (abs x))

  -- What keeps exponentials of xs in range.
  local def shift [n] (xs: [n]t): t =
    let most = R.maximum xs
    in if R.(isinf most || isnan most) then zero else most

  -- A number m, and log (sum (exp xs)) - m without overflow: apart, as of large numbers the sum would lose digits.
  local def log_total [n] (xs: [n]t): (t, t) =
    let m = shift xs
    let s = R.sum (map (\x -> R.(exp (x - m))) xs)
    in (m, R.log s)

  -- log (sum (exp xs)) without overflow; -inf of no numbers.
  def logsumexp [n] (xs: [n]t): t = let (m, l) = log_total xs in m R.+ l

  -- log (exp x + exp y).
  def logaddexp (x: t) (y: t): t =
    if R.(isinf x || isinf y) then R.max x y else R.(max y x + log1p (exp (min (x - y) (y - x))))

  -- The exponentials of numbers over their sum; and the logarithms of that.
  def log_softmax [n] (xs: [n]t): [n]t = let (m, l) = log_total xs in map (\x -> R.(x - m - l)) xs
  def softmax [n] (xs: [n]t): [n]t =
    let m = shift xs
    let es = map (\x -> R.(exp (x - m))) xs
    let s = R.sum es
    in map (R./ s) es

  -- 1 / (1 + exp (-x)), its logarithm, and log (1 + exp x).  Without branches, which loops of many numbers could not
  -- take several at a time of.  `min` and `max` give their derivative at ties to the first argument: at 0 the order of
  -- the arguments makes the derivatives right.
  def softplus (x: t): t = R.(max zero x + log1p (exp (min x (neg x))))
  def sigmoid (x: t): t =
    let y = R.(exp (min (neg x) x))
    in R.((if x >= zero then i64 1 else y) / (i64 1 + y))
  def log_sigmoid (x: t): t = R.neg (softplus (R.neg x))

  -- Normal, of mean mu and standard deviation sigma.
  def normal_logpdf (mu: t) (sigma: t) (x: t): t =
    let z = R.((x - mu) / sigma)
    in R.(neg (z * z / i64 2 + log sigma + half_log_2pi))
  def normal_cdf (mu: t) (sigma: t) (x: t): t =
    R.(erfc ((mu - x) / (sigma * sqrt (i64 2))) / i64 2)
  def normal_quantile (mu: t) (sigma: t) (p: t): t = R.(mu + sigma * inverse.normal_quantile p)

  -- The logarithm of the distribution function; below -20 standard deviations by its asymptotic series.
  def normal_logcdf (mu: t) (sigma: t) (x: t): t =
    let z = R.((x - mu) / sigma)
    let far = R.i64 (if R.num_bits == 64 then -20 else -9)
    in if R.(z > zero) then R.(log1p (neg (erfc (z / sqrt (i64 2)) / i64 2)))
       else if z R.> far then R.(log (erfc (neg z / sqrt (i64 2)) / i64 2))
       else
         let u = R.(i64 1 / z)
         let w = R.(u * u)
         let s = R.(w * (i64 (-1) + w * (i64 3 + w * (i64 (-15) + w * (i64 105 + w * (i64 (-945) + w * i64 10395))))))
         in R.(log1p s - z * z / i64 2 - log (neg z) - half_log_2pi)

  -- A number whose logarithm is normal.
  def lognormal_logpdf (mu: t) (sigma: t) (x: t): t =
    if R.(x <= zero) then none else R.(normal_logpdf mu sigma (log x) - log x)

  -- Normal vectors of mean mu and covariance l l^T, l a lower triangular matrix of which the rest is not read.
  def multivariate_normal_logpdf [n] (mu: [n]t) (l: [n][n]t) (x: [n]t): t =
    let solved =
      loop z = replicate n zero for i < n do
        let s = loop s = R.(x[i] - mu[i]) for j < i do R.(s - l[i, j] * z[j])
        in z with [i] = R.(s / l[i, i])
    let logs = R.sum (map (\i -> R.log l[i, i]) (iota n))
    in R.(neg (dot solved solved / i64 2 + logs + i64 n * half_log_2pi))

  -- Of location mu and scale b: e^(-|x - mu| / b) / 2b, and others with that shape.
  def laplace_logpdf (mu: t) (b: t) (x: t): t = R.(neg (abs (x - mu) / b + log (i64 2 * b)))
  def logistic_logpdf (mu: t) (b: t) (x: t): t =
    let z = R.((x - mu) / b)
    in R.(neg (z + i64 2 * softplus (neg z) + log b))
  def cauchy_logpdf (mu: t) (b: t) (x: t): t =
    let z = R.((x - mu) / b)
    in R.(neg (log1p_square z + log (pi * b)))

  -- Student's t of nu degrees of freedom, location mu and scale b.
  def student_t_logpdf (nu: t) (mu: t) (b: t) (x: t): t =
    let z = R.((x - mu) / b)
    let h = R.(nu / i64 2)
    -- log (gamma (h + 1/2) / (gamma h sqrt (2 pi h))): of large numbers the logarithms would cancel.
    let scale =
      if R.(h < i64 16) then R.(lgamma (h + c 0.5) - lgamma h - log h / i64 2 - half_log_2pi)
      else
        let w = R.(i64 1 / (h * h))
        let s = R.(c 0.125 - w * (c 0.005208333333333333 - w * (c 0.0015625 - w * (c 0.0011858258928571428
                   - w * (c 0.0016818576388888889 - w * c 0.003834117542613636)))))
        in R.(neg (s / h) - half_log_2pi)
    in R.(scale - log b - (h + c 0.5) * log1p_square (z / sqrt nu))

  -- The same for all x of a...b.
  def uniform_logpdf (a: t) (b: t) (x: t): t = if R.(x < a || x > b) then none else R.(neg (log (b - a)))

  -- Of a rate, the inverse of the mean.
  def exponential_logpdf (rate: t) (x: t): t = if R.(x < zero) then none else R.(log rate - rate * x)
  def exponential_cdf (rate: t) (x: t): t = if R.(x <= zero) then zero else R.(neg (expm1 (neg rate * x)))

  -- Of a shape a and a rate b, the inverse of a scale; and of one over such a number.
  def gamma_logpdf (a: t) (b: t) (x: t): t =
    if R.(x < zero) then none
    else R.(a * log b - lgamma a + times_log (a - i64 1) x - b * x)
  def gamma_cdf (a: t) (b: t) (x: t): t = R.f64 (special.gamma_p (R.to_f64 a) (R.(to_f64 (b * x))))
  def inverse_gamma_logpdf (a: t) (b: t) (x: t): t =
    if R.(x <= zero) then none else R.(a * log b - lgamma a - (a + i64 1) * log x - b / x)

  -- Proportional to x^(a-1) (1-x)^(b-1).
  def beta_logpdf (a: t) (b: t) (x: t): t =
    if R.(x < zero || x > i64 1) then none
    else R.(lgamma (a + b) - lgamma a - lgamma b + times_log (a - i64 1) x + times_log1p (b - i64 1) (neg x))

  -- Proportional to the product of all x^(a-1); xs sums to 1.
  def dirichlet_logpdf [n] (as: [n]t) (xs: [n]t): t =
    let inside = all (\x -> R.(x >= zero)) xs
    let terms = R.sum (map2 (\a x -> R.(times_log (a - i64 1) x - lgamma a)) as xs)
    let total = R.sum as
    in if inside then R.(lgamma total + terms) else none

  -- Probabilities of integers.  Poisson: of a mean.
  def poisson_logpmf (mean: t) (k: i64): t =
    if k < 0 then none else R.(times_log (i64 k) mean - mean - lgamma (i64 k + i64 1))

  -- Successes in n trials, each with probability p; in one trial; in one trial with p = sigmoid logit.
  def binomial_logpmf (n: i64) (p: t) (k: i64): t =
    if k < 0 || k > n then none
    else
      let rest = n - k
      in R.(lgamma (i64 n + i64 1) - lgamma (i64 k + i64 1) - lgamma (i64 rest + i64 1)
            + times_log (i64 k) p + times_log1p (i64 rest) (neg p))
  def bernoulli_logpmf (p: t) (k: bool): t = if k then R.log p else R.(log1p (neg p))
  def bernoulli_logit_logpmf (logit: t) (k: bool): t = R.neg (softplus (if k then R.neg logit else logit))

  -- Failures before the r-th success; before the first one.
  def negative_binomial_logpmf (r: t) (p: t) (k: i64): t =
    if k < 0 then none
    else R.(lgamma (r + i64 k) - lgamma r - lgamma (i64 k + i64 1) + r * log p + times_log1p (i64 k) (neg p))
  def geometric_logpmf (p: t) (k: i64): t = negative_binomial_logpmf (R.i64 1) p k

  -- k with probability ps[k], or softmax logits; -inf for other k.
  def categorical_logpmf [n] (ps: [n]t) (k: i64): t = if k < 0 || k >= n then none else R.log ps[k]
  def categorical_logit_logpmf [n] (logits: [n]t) (k: i64): t =
    if k < 0 || k >= n then none
    else let (m, l) = log_total logits in R.(logits[k] - m - l)

  -- NaN of no numbers.
  def mean [n] (xs: [n]t): t = R.sum xs R./ R.i64 n

  -- The mean of squared differences from the mean; as an estimate from a sample, with n - 1 for n.
  def variance [n] (xs: [n]t): t = let m = mean xs in mean (map (\x -> R.((x - m) * (x - m))) xs)
  def sample_variance [n] (xs: [n]t): t = variance xs R.* (R.i64 n R./ R.i64 (n - 1))
  def stddev [n] (xs: [n]t): t = R.sqrt (variance xs)

  -- Of two variables; of d variables that are the columns of n rows.
  def covariance [n] (xs: [n]t) (ys: [n]t): t =
    let (mx, my) = (mean xs, mean ys)
    in mean (map2 (\x y -> R.((x - mx) * (y - my))) xs ys)
  def correlation [n] (xs: [n]t) (ys: [n]t): t = covariance xs ys R./ R.sqrt (variance xs R.* variance ys)
  def covariance_matrix [n] [d] (rows: [n][d]t): [d][d]t =
    let centred = map (\column -> let m = mean column in map (R.- m) column) (transpose rows)
    in map (\a -> map (\b -> mean (map2 (R.*) a b)) centred) centred

  -- In ascending order, NaN last.
  local def ascending [n] (xs: [n]t): [n]t =
    let key (x: t): u64 =
      let b = f64.to_bits (R.to_f64 x)
      in if R.isnan x then u64.highest else if b >> 63 == 1 then !b else b | 1 << 63
    in map (\i -> xs[i]) (intrinsics.argsort (map key xs))

  -- Between the numbers of ranks around p (n - 1), linearly, 0 <= p <= 1: one for each p.  NaN if there is a NaN, or no
  -- number.
  def quantiles [n] [m] (ps: [m]t) (xs: [n]t): [m]t =
    let sorted = ascending xs
    in map (\p ->
              if n == 0 then R.nan else if R.isnan sorted[n - 1] then R.nan
              else
                let place = R.max zero (R.min (R.i64 (n - 1)) (p R.* R.i64 (n - 1)))
                let i = i64.min (n - 1) (R.to_i64 place)
                let (a, b) = (sorted[i], sorted[i64.min (n - 1) (i + 1)])
                let w = place R.- R.i64 i
                in if R.(w == zero) then a
                   else if R.(isinf a || isinf b) then R.((i64 1 - w) * a + w * b)
                   else R.(a + w * (b - a))) ps
  def quantile [n] (p: t) (xs: [n]t): t = (quantiles [p] xs)[0]
  def median [n] (xs: [n]t): t = quantile (c 0.5) xs
}

open mk_stats f64

module stats_f32 = mk_stats f32
