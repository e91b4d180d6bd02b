"""PostgreSQL runs on a volume that its sandbox mounts. The volume is grown under load, and moved to another sandbox."""
import subprocess

import pytest
from lib import crust, debian_root, objects, postgres
from lib.leaks import Snapshot
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.crust, pytest.mark.e2e]

# Small segments make the log wrap around often.
SERVER = f"""cd /data && export PATH={postgres.BIN}:/usr/bin:/bin
test -d /data/pg || initdb -D /data/pg -k -A trust -U pg --locale=C -E UTF8 --wal-segsize=4 >/dev/null || exit 1
exec postgres -D /data/pg -k /tmp -c listen_addresses= -c shared_buffers=32MB -c max_wal_size=64MB -c min_wal_size=16MB
"""
CLIENT = f"PATH={postgres.BIN}:/usr/bin:/bin PGHOST=/tmp PGUSER=pg PGDATABASE=postgres"
# Runs one transaction after the other, and prints a number once its commit was acknowledged.
NUMBERS = f"""i=0; while :; do i=$((i + 1)); echo "INSERT INTO numbers VALUES ($i) RETURNING n;"; done |
{CLIENT} psql -X -A -t -q"""


def server():
    return objects.pod("db", SERVER, ["data"], runtimeClassName="sandboxed", container={"image": postgres.IMAGE},
                       securityContext={"runAsUser": postgres.USER, "runAsGroup": postgres.USER,
                                        "fsGroup": postgres.USER, "fsGroupChangePolicy": "OnRootMismatch"})


def shell(berth, script):
    return berth.run("exec", "db", "--", "/bin/sh", "-c", script).stdout.strip()


def query(berth, text):
    return shell(berth, f'{CLIENT} psql -X -A -t -q -v ON_ERROR_STOP=1 -c "{text}"')


def start(berth):
    berth.apply(server())
    berth.wait_phase("pods", "db", "Running")
    wait_for("the server to answer", lambda: berth.run(
        "exec", "db", "--", "/bin/sh", "-c", f"{CLIENT} pg_isready -q", check=False).returncode == 0)


def beside(berth, script, output):
    """Starts a client in the pod whose output is kept outside."""
    return subprocess.Popen([BINARY, "exec", "--data", berth.data, "db", "--", "/bin/sh", "-c", script],
                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def acknowledged(path):
    """Gives the number of the last commit that was acknowledged to the client."""
    lines = path.read_text().split("\n")[:-1]
    numbers = [int(line) for line in lines if line.isdigit()]
    assert numbers == list(range(1, len(numbers) + 1))
    return len(numbers)


def df(berth, flag):
    """Gives (total, used, available) as the pod sees them."""
    return tuple(map(int, shell(berth, f"df {flag} /data | tail -1").split()[1:4]))


def check_stats(berth, handler):
    """Checks that the handler's values, read between two calls of df in the pod, are between those of df."""
    before = df(berth, "-k")
    usage, abnormal = handler.stats()
    after = df(berth, "-k")
    assert not abnormal
    total, used, available = (value // 1024 for value in usage["bytes"])
    assert before[0] == total == after[0]
    slack = 32 * 1024  # files of the log are made and removed in between
    assert min(before[1], after[1]) - slack <= used <= max(before[1], after[1]) + slack
    assert min(before[2], after[2]) - slack <= available <= max(before[2], after[2]) + slack
    assert usage["inodes"][1] > 900  # the files of a server
    return total


@pytest.fixture
def place():
    with crust.place() as made:
        try:
            postgres.import_image(made[2].folder / "containerd.sock")
        except debian_root.Missing as missing:
            pytest.skip(str(missing))
        yield made


def test_a_database_under_load_grows_and_moves(place, tmp_path):
    berth, handler, _ = place
    before = Snapshot(berth)
    berth.apply(crust.claim("data", "512Mi"))
    start(berth)
    query(berth, "CREATE TABLE numbers (n bigint PRIMARY KEY)")
    shell(berth, f"{CLIENT} pgbench -i -q -s 3 2>/dev/null")
    with open(tmp_path / "numbers", "wb") as numbers, open(tmp_path / "pgbench", "wb") as load:
        clients = [beside(berth, NUMBERS, numbers), beside(berth, f"{CLIENT} pgbench -n -c 3 -T 300", load)]
        try:
            wait_for("the load", lambda: acknowledged(tmp_path / "numbers") > 100)
            small = check_stats(berth, handler)
            berth.apply(crust.claim("data", "768Mi"))
            wait_for("the claim to have grown",
                     lambda: berth.get("pvc", "data")["status"]["capacity"]["storage"] == "768Mi", seconds=30)
            grown = acknowledged(tmp_path / "numbers")
            assert check_stats(berth, handler) > small + 200 * 1024
            wait_for("the load to go on", lambda: acknowledged(tmp_path / "numbers") > grown + 100)
            assert all(client.poll() is None for client in clients)
            assert not crust.host_mounts(berth)
            [sandbox] = handler.records()
            berth.run("delete", "pod", "db")
        finally:
            for client in clients:
                client.kill()
                client.wait()
    wait_for("the device to be free", lambda: not crust.devices(berth))
    start(berth)
    assert handler.records() != [sandbox]
    committed = acknowledged(tmp_path / "numbers")
    count, last = map(int, query(berth, "SELECT count(*), max(n) FROM numbers").split("|"))
    # One more transaction may have been committed without an acknowledgement.
    assert committed <= last <= committed + 1 and count == last, (committed, count, last)
    # Each transaction changes all of these sums by the same amount.
    sums = query(berth, "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM "
                 "pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM "
                 "pgbench_history), (SELECT count(*) FROM pgbench_history)").split("|")
    assert len(set(sums[:4])) == 1 and int(sums[4]) > 100, sums
    # This checks each block's checksum, and each index against its table.
    shell(berth, f"{CLIENT} pg_amcheck --install-missing --heapallindexed --all")
    assert not crust.host_mounts(berth)
    berth.remove_everything()
    left = before.leaked_since()
    assert not left, "left behind:\n" + "\n".join(left)
    wait_for("the handler to know no sandbox", lambda: not handler.records() and not handler.holders())
