-- Other files: their names, qualified ones, folders, what they hide, and entries that are only functions here.
import "lib/shapes"
module s = import "lib/shapes"
module numbers = import "lib/deep/numbers"
open import "lib/reexport"

-- ==
-- entry: main
-- input { 3 } output { 6 9 42 7 12 }
entry main (x: i32) = (double x, s.square x, numbers.answer, reexported, s.entry_there x)
