"""What is worth saying of a look. Add a rule and it is looked for: there is no other list.

The thresholds are rates from which the cost is seen in a program's time: a shootdown costs the
sender some microseconds and each receiver one more, a fault of a 4 KiB page half a microsecond
(`memlab sweep tlb-shootdown`, `memlab sweep page-fault`): 1000 and 10,000 a second are some half
of a per cent of a CPU.
"""

from memlab.diagnose import rules_of_limits, rules_of_locks, rules_of_returns
from memlab.diagnose.finding import Rule

RULES: tuple[Rule, ...] = (
    *rules_of_limits.RULES,
    *rules_of_returns.RULES,
    *rules_of_locks.RULES,
)
