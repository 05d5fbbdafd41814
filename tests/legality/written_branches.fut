-- Programs that tempt maps whose branches have loops of few iterations to become straight lines of scalars.

-- Only one side stores: the other one leaves the row as it is.
entry one_side [n] (xs: *[n][3]f64) (ls: [n]f64): [n][3]f64 =
  map2 (\(x: [3]f64) l -> if l > 0.5 then map (\v -> f64.exp (f64.sin v) / l + f64.sqrt (l + v * v)) x else x) xs ls

-- What a branch stores is read where the place depends on the data.
entry read_back [n] (xs: [n][3]f64) (ls: [n]f64): ([n][3]f64, [n]f64) =
  unzip (map2 (\x l ->
    if l > 0.5 then
      let b = if l > 0.75 then map (\v -> f64.exp (f64.sin v) / l) x else map (\v -> v - l) x
      in (b, b[i64.f64 (l * 8) % 3])
    else ([l, l, l], l)) xs ls)
