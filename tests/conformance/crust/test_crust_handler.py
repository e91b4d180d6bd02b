"""The rules of docs/crust.md as cases, against one handler."""
import pytest

import cases_fs_group  # noqa: F401
import cases_offer  # noqa: F401
import cases_pod  # noqa: F401
import cases_publish  # noqa: F401
import cases_upkeep  # noqa: F401
from crust_case import CASES
from sandboxes import Unsupported

from lib.rules import Violation


@pytest.mark.crust
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case, session_bench, capabilities):
    missing = case.missing(capabilities)
    if missing:
        pytest.skip("the case is for a handler that offers " + ", ".join(missing).replace("not ", "no "))
    try:
        case.run(session_bench)
    except Unsupported as why:
        pytest.skip(str(why))
    except Violation as violation:
        pytest.fail(str(violation), pytrace=False)
