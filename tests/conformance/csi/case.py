"""The cases of the CSI specification's rules."""
from lib.rules import Suite

SUITE = Suite("CSI")
CASES = SUITE.cases
case = SUITE.case
