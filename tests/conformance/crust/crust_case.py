"""The cases of the rules in docs/crust.md."""
from lib.rules import Suite

SUITE = Suite("docs/crust.md", refusals_break=True)
CASES = SUITE.cases
case = SUITE.case

BLOCK = "BLOCK"  # the handler mounts a file system that this suite can make on a device
STATS = (BLOCK, "VOLUME_STATS")
GROWS = (BLOCK, "VOLUME_RESIZE")
PODS = (BLOCK, "POD_VOLUMES")
NOWHERE = "/dev/conformance-no-such-thing"
