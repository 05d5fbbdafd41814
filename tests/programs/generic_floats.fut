-- One module for three types of floats.
module stats (R: real) = {
  def mean [n] (xs: [n]R.t) = R.(sum xs / i64 n)
  def var [n] (xs: [n]R.t) = let m = mean xs in mean (map (\x -> R.((x - m) * (x - m))) xs)
  def soft [n] (xs: [n]R.t) = let m = R.maximum xs let es = map (\x -> R.exp (x R.- m)) xs let s = R.sum es in map (R./ s) es
}
module S16 = stats f16
module S32 = stats f32
module S64 = stats f64
-- ==
-- input { [1.0, 2.0, 4.0] } output { 2.3333333 1.5555556f32 1.555f16 [0.0420101, 0.1141952, 0.8437947] }
entry main [n] (xs: [n]f64) = (S64.mean xs, S32.var (map f32.f64 xs), S16.var (map f16.f64 xs), S64.soft xs)
