"""Nobody reads the Secrets and keys of a process of Berth in a core file, or from another process of its user."""
import pathlib
import shutil
import socket
import subprocess

import pytest
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.api, pytest.mark.security]

NOBODY = 65534


@pytest.fixture
def silent_api():
    """Gives an API server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_process_of_a_user_is_not_open_to_that_user(silent_api, short):
    short.chmod(0o755)
    program = short / "berth"
    shutil.copy(BINARY, program)
    config = short / "kubeconfig"
    config.write_text(f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{silent_api.getsockname()[1]}"}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""")
    config.chmod(0o644)
    process = subprocess.Popen([program, "get", "pods", "--kubeconfig", config], user=NOBODY, group=NOBODY,
                               extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, cwd="/")
    try:
        silent_api.settimeout(60)
        try:
            connection, _ = silent_api.accept()
        except TimeoutError:
            process.kill()
            raise AssertionError(process.communicate()[0]) from None
        with connection:
            proc = pathlib.Path("/proc") / str(process.pid)
            assert f"Uid:\t{NOBODY}" in (proc / "status").read_text()
            # The kernel gives what must not be read of a process that is not dumpable to root.
            assert (proc / "environ").stat().st_uid == 0
            assert (proc / "mem").stat().st_uid == 0
            assert core_limits(process.pid) == ["0", "0"]
    finally:
        process.kill()
        process.communicate()


def core_limits(pid):
    (line,) = [line for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
               if line.startswith("Max core file size")]
    return line.split()[4:6]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:  # a short-lived child
        return ""


def children_of(pid):
    """Gives the processes that any thread of the process started."""
    return [int(child) for threads in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for child in threads.read_text().split()]


def test_the_parts_of_a_standalone_leave_no_core(berth):
    main = berth.process.pid
    driver = wait_for("the driver's process", lambda: [
        child for child in children_of(main) if "csi-driver" in command_line(child)])
    for pid in (main, *driver):
        assert core_limits(pid) == ["0", "0"]
