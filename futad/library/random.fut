-- Random numbers without a state: a number is a function of a key and a counter, so that a map draws independent
-- numbers in parallel, and the same ones on every backend.  See docs/library.md.
--
-- A key is either drawn from, each counter for one number, or made into other keys.

local module special = import "futad/special"

-- Where the bits come from.
module type engine = {
  type key
  -- The key of a seed.
  val key: (seed: i64) -> key
  -- A key for each number.
  val fold_in: (k: key) -> (i: i64) -> key
  -- 64 and 32 bits for each counter.
  val bits64: (k: key) -> (i: i64) -> u64
  val bits32: (k: key) -> (i: i64) -> u32
}

local def low (i: i64): u32 = u32.i64 i
local def high (i: i64): u32 = u32.i64 (i >> 32)

-- Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.  Threefry with two words of 32
-- bits and 20 rounds: the generator of jax.random, whose keys, bits and uniform numbers these are.
module threefry2x32 = {
  type key = (u32, u32)

  local def rotated (x: u32) (r: u32): u32 = (x << r) | (x >> (32 - r))
  local def four (r: u32) (s: u32) (t: u32) (v: u32) (a: u32, b: u32): (u32, u32) =
    let a = a + b let b = a ^ rotated b r
    let a = a + b let b = a ^ rotated b s
    let a = a + b let b = a ^ rotated b t
    let a = a + b let b = a ^ rotated b v
    in (a, b)

  -- The words for a counter of two words.
  def block (k0: u32, k1: u32) (c0: u32, c1: u32): (u32, u32) =
    let k2 = k0 ^ k1 ^ 0x1BD11BDA
    let add (p: u32) (q: u32) (a: u32, b: u32) = (a + p, b + q)
    in (c0 + k0, c1 + k1)
       |> four 13 15 26 6 |> add k1 (k2 + 1)
       |> four 17 29 16 24 |> add k2 (k0 + 2)
       |> four 13 15 26 6 |> add k0 (k1 + 3)
       |> four 17 29 16 24 |> add k1 (k2 + 4)
       |> four 13 15 26 6 |> add k2 (k0 + 5)

  def key (seed: i64): key = (high seed, low seed)
  def fold_in (k: key) (i: i64): key = block k (high i, low i)
  def bits64 (k: key) (i: i64): u64 = let (a, b) = fold_in k i in u64.u32 a << 32 | u64.u32 b
  def bits32 (k: key) (i: i64): u32 = let (a, b) = fold_in k i in a ^ b
}

-- Of the same paper, Philox with four words of 32 bits and 10 rounds.
module philox4x32 = {
  type key = (u32, u32)

  -- The words for a counter of four words.
  def block (k: key) (c: (u32, u32, u32, u32)): (u32, u32, u32, u32) =
    (#[unroll] loop ((c0, c1, c2, c3), (k0, k1)) = (c, k) for _i < 10i32 do
      let p = 0xD2511F53u64 * u64.u32 c0
      let q = 0xCD9E8D57u64 * u64.u32 c2
      in ((u32.u64 (q >> 32) ^ c1 ^ k0, u32.u64 q, u32.u64 (p >> 32) ^ c3 ^ k1, u32.u64 p),
          (k0 + 0x9E3779B9, k1 + 0xBB67AE85))).0

  def key (seed: i64): key = (low seed, high seed)
  def fold_in (k: key) (i: i64): key = let (_, _, a, b) = block k (low i, high i, 0, 0) in (a, b)
  def bits64 (k: key) (i: i64): u64 = let (a, b, _, _) = block k (low i, high i, 0, 0) in u64.u32 a << 32 | u64.u32 b
  def bits32 (k: key) (i: i64): u32 = (block k (low i, high i, 0, 0)).0
}

-- Distributions of numbers of F.t, with bits of E.  Derivatives are those of the number that is drawn, for the same
-- bits (reparameterisation); whatever a number is multiplied by or added to has derivatives, too.
module mk_random (E: engine) (F: float) = {
  local module quantiles = special.mk_special F
  type key = E.key
  type t = F.t

  local def closed64 (k: key) (i: i64): f64 = f64.u64 (E.bits64 k i >> 12) * 0x1.0p-52
  local def open64 (k: key) (i: i64): f64 = closed64 k i + 0x1.0p-53

  -- d and v, of which the product is a gamma number of shape a >= 1.
  local def gamma_of_shape_above_1 (a: f64) (k: key): (f64, f64) =
    let d = a - 1 / 3
    let c = 1 / f64.sqrt (9 * d)
    let try (j: i64) =
      let x = special.normal_quantile (open64 k (2 * j + 1))
      let w = 1 + c * x
      let v = w * w * w
      in (v, w > 0 && f64.log (open64 k (2 * j + 2)) < 0.5 * x * x + d - d * v + d * f64.log v)
    let (v, _, _) =
      loop (v, j, more) = (1, 0, a >= 1 && a < f64.inf) while more do
        let (v, ok) = try j in (v, j + 1, !ok)
    in (d, v)

  -- By adding up probabilities until they reach u.
  local def small_poisson (l: f64) (u: f64): i64 =
    let p = f64.exp (-l)
    let (n, _, _) = loop (n, p, sum) = (0, p, p) while u >= sum && n < 200 do
      let p = p * l / f64.i64 (n + 1) in (n + 1, p, sum + p)
    in n

  -- Hormann, "The transformed rejection method for generating Poisson random variables", 1993: PTRS.
  local def large_poisson (l: f64) (k: key): i64 =
    let root = f64.log l
    let b = 0.931 + 2.53 * f64.sqrt l
    let a = -0.059 + 0.02483 * b
    let inverse = 1.1239 + 1.1328 / (b - 3.4)
    let vr = 0.9277 - 3.6224 / (b - 2)
    let try (j: i64) =
      let u = closed64 k (2 * j) - 0.5
      let v = open64 k (2 * j + 1)
      let us = 0.5 - f64.abs u
      let n = f64.floor ((2 * a / us + b) * u + l + 0.43)
      let ok = us >= 0.07 && v <= vr
               || n >= 0 && !(us < 0.013 && v > us)
                  && f64.log (v * inverse / (a / (us * us) + b)) <= n * root - l - f64.lgamma (n + 1)
      in (n, ok)
    let (n, _, _) =
      loop (n, j, more) = (0, 0, l < 0x1.0p62) while more do
        let (n, ok) = try j in (n, j + 1, !ok)
    in i64.f64 n

  def key (seed: i64): key = E.key seed
  def fold_in (k: key) (i: i64): key = E.fold_in k i

  -- n keys of one.
  def keys (n: i64) (k: key): [n]key = tabulate n (fold_in k)

  -- Bits.
  def bits64 (k: key) (i: i64): u64 = E.bits64 k i
  def bits32 (k: key) (i: i64): u32 = E.bits32 k i

  -- In [0, 1): a multiple of 2^-52 (f32: 2^-23, f16: 2^-10).
  def uniform (k: key) (i: i64): t =
    if F.num_bits == 64 then let b = E.bits64 k i >> 12 in F.(u64 b * f64 0x1.0p-52)
    else if F.num_bits == 32 then let b = E.bits32 k i >> 9 in F.(u32 b * f64 0x1.0p-23)
    else let b = E.bits32 k i >> 22 in F.(u32 b * f64 0x1.0p-10)

  -- In (0, 1), in the middle between the values of `uniform`.
  def uniform_open (k: key) (i: i64): t = F.(uniform k i + epsilon / f64 2)

  -- Integers of 0...n-1.  The probability of each is 1/n to within 2^-64.
  def below (n: i64) (k: key) (i: i64): i64 = i64.u64 (u64.mul_hi (E.bits64 k i) (u64.i64 n))

  -- true with probability p.
  def bernoulli (p: t) (k: key) (i: i64): bool = F.(uniform k i < p)

  -- Normal with mean 0 and variance 1: by the inverse of its distribution function.
  def normal (k: key) (i: i64): t = quantiles.normal_quantile (uniform_open k i)

  -- With density e^-x.
  def exponential (k: key) (i: i64): t = F.(neg (log1p (neg (uniform k i))))

  -- With density e^-|x| / 2.
  def laplace (k: key) (i: i64): t =
    let u = uniform_open k i
    let y = F.(neg (log (f64 2 * min u (f64 1 - u))))
    in if F.(u < f64 0.5) then F.neg y else y

  -- With distribution functions 1 / (1 + e^-x) and e^-e^-x.
  def logistic (k: key) (i: i64): t = let u = uniform_open k i in F.(log u - log1p (neg u))
  def gumbel (k: key) (i: i64): t = F.(neg (log (neg (log (uniform_open k i)))))

  -- The logarithm of a gamma number of shape a > 0 and rate 1; NaN for other shapes.  The derivative by a is that by
  -- implicit differentiation; it is a constant, so that second derivatives are 0.
  -- Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
  def log_gamma (a: t) (k: key) (i: i64): t =
    let k = E.fold_in k i
    let a = F.to_f64 a
    let a0 = special.constant a
    let (d, found) = gamma_of_shape_above_1 (if a0 < 1 then a0 + 1 else a0) k
    let boost = if a0 < 1 then f64.log (open64 k 0) / a0 else 0
    let x = if a0 > 0 && a0 < f64.inf then f64.log d + f64.log found + boost else f64.nan
    in F.f64 (if f64.isnan x then x else x + special.gamma_log_slope a0 x * (a - a0))

  -- A gamma number of shape a > 0 and rate 1: `b * gamma a k i` has scale b.
  def gamma (a: t) (k: key) (i: i64): t = F.exp (log_gamma a k i)

  -- Between 0 and 1, with density proportional to x^(a-1) (1-x)^(b-1); a, b > 0.
  def beta (a: t) (b: t) (k: key) (i: i64): t =
    let k = E.fold_in k i
    let difference = F.(log_gamma b k 1 - log_gamma a k 0)
    in F.(f64 1 / (f64 1 + exp difference))

  -- Shares that sum to 1, with density proportional to the product of all x^(a-1).
  def dirichlet [n] (as: [n]t) (k: key) (i: i64): [n]t =
    let k = E.fold_in k i
    let xs = map2 (\a j -> log_gamma a k j) as (iota n)
    let most = F.maximum xs
    let es = map (\x -> F.(exp (x - most))) xs
    let total = F.sum es
    in map (F./ total) es

  -- Student's t with nu > 0 degrees of freedom.
  def student_t (nu: t) (k: key) (i: i64): t =
    let k = E.fold_in k i
    let half = F.(nu / f64 2)
    in F.(normal k 0 * exp ((log half - log_gamma half k 1) / f64 2))

  -- j with probability ws[j] / sum ws; weights are not negative, and their sum is positive.
  def categorical [n] (ws: [n]t) (k: key) (i: i64): i64 =
    let sums = scan (F.+) (F.f64 0) ws
    let x = uniform k i F.* sums[n - 1]
    in (loop (from, to) = (0, n - 1) while from < to do
          let m = (from + to) / 2
          in if F.(x < sums[m]) then (from, m) else (m + 1, to)).0

  -- Poisson numbers of mean l >= 0; without derivatives.
  def poisson (l: t) (k: key) (i: i64): i64 =
    let l = F.to_f64 l
    in if l < 10 then small_poisson l (closed64 k i) else large_poisson l (E.fold_in k i)

  -- The numbers 0...n-1 in random order: that of n words of 64 bits, which are different but for n^2 / 2^65 of keys.
  def permutation (n: i64) (k: key): [n]i64 = intrinsics.argsort (tabulate n (E.bits64 k))

  -- The elements of an array in random order.
  def shuffle [n] 'a (xs: [n]a) (k: key): [n]a = map (\j -> xs[j]) (permutation n k)

  -- Normal vectors of mean mu and covariance l l^T; the upper triangle of l is not read.
  def multivariate_normal [n] (mu: [n]t) (l: [n][n]t) (k: key) (i: i64): [n]t =
    let k = E.fold_in k i
    let zs = tabulate n (normal k)
    let row (j: i64) = F.sum (map2 (\m z -> if m <= j then F.(l[j, m] * z) else F.f64 0) (iota n) zs)
    in map2 (\m j -> F.(m + row j)) mu (iota n)
}

open mk_random threefry2x32 f64

module random_f32 = mk_random threefry2x32 f32
