"""The CSI specification's rules as cases, against one driver."""
import pytest

import cases_controller  # noqa: F401
import cases_groups  # noqa: F401
import cases_identity  # noqa: F401
import cases_node  # noqa: F401
from case import CASES

from lib.rules import Violation


@pytest.mark.csi
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case, session_bench, capabilities):
    missing = case.missing(capabilities)
    if missing:
        pytest.skip(f"the driver (or the call of this suite) offers no {', '.join(missing)}")
    try:
        case.run(session_bench)
    except Violation as violation:
        pytest.fail(str(violation), pytrace=False)
