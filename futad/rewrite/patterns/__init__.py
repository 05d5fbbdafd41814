"""Rules as text: their syntax, matching, building what they make, and the types in them."""
