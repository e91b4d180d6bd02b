"""Labels of volumes in sandboxes, on a kernel with SELinux."""
import pathlib
import re

import pytest

pytestmark = pytest.mark.vm

# The kernel takes a policy in one piece.
LOAD = """
mount -t selinuxfs selinuxfs /sys/fs/selinux
secilc -o policy -f /dev/null selinux.cil
dd if=policy of=/sys/fs/selinux/load bs=4M count=1 2>/dev/null
echo {enforce} >/sys/fs/selinux/enforce
[ "$(cat /sys/fs/selinux/enforce)" = {enforce} ]
"""


@pytest.fixture
def selinux(machine):
    machine.kernel_arguments = "security=selinux"
    machine.files["selinux.cil"] = pathlib.Path(__file__).parent / "selinux.cil"
    return machine


@pytest.mark.parametrize("enforce", [0, 1], ids=["permissive", "enforcing"])
def test_the_label_of_a_volume_of_a_sandbox_decides_who_uses_it(selinux, enforce):
    script = "set -e" + LOAD.format(enforce=enforce) + "berth_crust_vm_test --gtest_filter='SelinuxTest.*'"
    output = selinux.run(script).output
    assert "[  SKIPPED ]" not in output, output
    assert re.search(r"\[  PASSED  \] 4 tests\.", output), output
