"""When it is right that a return sweep reads what the forward sweep saves for it (`iterations.py`)."""

from __future__ import annotations

from futad.legality import Legality

LEGAL = Legality(
    "remat",
    "a return sweep reads what the forward sweep saves for it in place of computing it again",
    worth="D-LSTM on c: the derivative takes 1.9 times the objective's time in place of 2.7; LSTM on a device: 117 "
    "launches in place of 292",
)
BEFORE = LEGAL.condition("nothing between needed", "a statement moves before one that binds what it uses")
SAME_ITERATIONS = LEGAL.condition("as many iterations", "the return sweep wants iterations that there were none")
LAST_FIRST = LEGAL.condition("last iteration first", "the return sweep's index is not that of the iteration it undoes")
AT_ITERATION = LEGAL.condition(
    "saved at the iteration", "the history's row is not the value of the iteration of that number"
)
CARRIED = LEGAL.condition("history carried on", "the array left at the end is not the one the iterations have saved in")
OUTSIDE = LEGAL.condition("sizes known outside", "the memory for all iterations is had before the loop")
FAILS_NOT = LEGAL.condition("fails not", "a check of the forward sweep's loop would be gone")
SAME = LEGAL.condition("same results", "the forward sweep would go on with other values")
SAME_BITS = LEGAL.condition(
    "equal to what is computed again", "a value is compared with what it was chosen from, which has other bits by then"
)
SAVING = LEGAL.condition("other variables save", "what the loop of the return sweep computes besides would be lost")
EACH_ROW = LEGAL.condition("each row saved", "rows that the loop does not save are not what they were before it")
SAVES_ALONE = LEGAL.condition("saves alone", "another use of what is saved would read other memory")
KNOWN = LEGAL.condition("known in the forward sweep", "the loop uses what only the return sweep has")
THERE = LEGAL.condition("not overwritten", "the loop would read what was overwritten since")
OWN_OVERWRITTEN = LEGAL.condition("own arrays overwritten", "two statements of the loop would overwrite one array")
READ_ONLY = LEGAL.condition("read only", "what is saved would be overwritten")
