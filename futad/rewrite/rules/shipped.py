"""The rules that the simplifier applies, in order: when it enters a statement, and when it leaves it."""

from futad.rewrite.rules.accs import ACC_ENTER, ACC_LEAVE
from futad.rewrite.rules.arrays import ARRAY_RULES
from futad.rewrite.rules.control import CONTROL_ENTER, CONTROL_LEAVE
from futad.rewrite.rules.few import FEW_ENTER
from futad.rewrite.rules.fills import FILL_LEAVE
from futad.rewrite.rules.powers import POWER_ENTER
from futad.rewrite.rules.scalar import SCALAR_RULES
from futad.rewrite.rules.soacs import SOAC_ENTER, SOAC_LEAVE

ENTER = (*SCALAR_RULES, *POWER_ENTER, *ARRAY_RULES, *CONTROL_ENTER, *SOAC_ENTER, *FEW_ENTER, *ACC_ENTER)
LEAVE = (*CONTROL_LEAVE, *SOAC_LEAVE, *ACC_LEAVE, *FILL_LEAVE)

__all__ = ["ENTER", "LEAVE"]
