"""The CRUST conformance suite catches each rule that the double of a handler can break, by the case of that name, and finds nothing
wrong with the double that keeps the rules, nor with Berth's handler."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "crust"))

from lib import crust, crust_double  # noqa: E402
from lib.rules import broken_rules  # noqa: E402

import cases_fs_group  # noqa: E402,F401
import cases_offer  # noqa: E402,F401
import cases_pod  # noqa: E402,F401
import cases_publish  # noqa: E402,F401
import cases_upkeep  # noqa: E402,F401
from crust_bench import Bench, sandboxes_of  # noqa: E402
from crust_case import CASES  # noqa: E402
from crust_client import CrustClient  # noqa: E402
from sandboxes import CommandSandboxes, NoContainer, Pod, Unsupported  # noqa: E402

pytestmark = [pytest.mark.crust, pytest.mark.conformance]

# The rules for every call have no case of their own, so a case that makes the call shows them.
SHOWN_BY = {"hangs": "publishes-nothing", "dies": "publishes-nothing", "unknown-code": "publishes-nothing",
            "negative-number": "stats-wrong", "aborted-forever": "given-up-call"}
SECONDS = 30  # for a call
HANG = 3  # for one of a handler that hangs
END = 3  # seconds after which the devices of a sandbox that has ended are free
LITTLE = ("--capabilities", "SELINUX_RELABEL_ON_MOUNT")


def bench_at(folder, socket, sandboxes):
    folder.mkdir(parents=True)
    return Bench(CrustClient(socket, SECONDS), sandboxes, folder, end_seconds=END)


class Place:
    """A double, and the suite's bench for it."""

    def __init__(self, folder, flags=()):
        self.double = crust_double.CrustDouble(folder / "double", flags).start()
        self.bench = bench_at(folder / "work", self.double.socket, CommandSandboxes(self.double.command))
        self.offers = self.bench.capabilities()

    def close(self):
        self.bench.client.close()
        self.double.stop()


@pytest.fixture(scope="module")
def places(folder):
    """A double that offers everything, and one that offers little."""
    made = [Place(folder / "all"), Place(folder / "little", LITTLE)]
    yield made
    for place in made:
        place.close()


@pytest.mark.parametrize("number", [0, 1], ids=["all", "little"])
def test_the_double_is_right_by_itself(places, number):
    place = places[number]
    assert list(broken_rules(place.bench, place.offers, CASES)) == []


def test_each_case_runs_against_one_of_the_doubles(places):
    assert [case.name for case in CASES if all(case.missing(place.offers) for place in places)] == []


def test_each_case_is_shown_to_catch_something():
    assert {case.name for case in CASES} - {SHOWN_BY.get(rule, rule) for rule in crust_double.rules()} == set()


@pytest.mark.turns
@pytest.mark.parametrize("rule", crust_double.rules())
def test_it_is_caught(rule, places):
    cases = [case for case in CASES if case.name == SHOWN_BY.get(rule, rule)]
    assert cases, f"the suite has no case for '{rule}'"
    place = next(place for place in places if not cases[0].missing(place.offers))
    place.double.be_wrong(rule)
    place.bench.client.seconds = HANG if rule == "hangs" else SECONDS
    try:
        found = list(broken_rules(place.bench, place.offers, cases))
    finally:
        if place.double.calm():
            place.bench.client.reconnect()
    assert any(broken == rule for broken, _ in found), found


def test_a_command_says_what_it_cannot_do(folder):
    command = folder / "command"
    command.write_text("""#!/bin/sh
case "$1" in
  begin) echo "no room" >&2; exit 1 ;;
  run) exit 125 ;;
  *) exit 77 ;;
esac
""")
    command.chmod(0o755)
    sandboxes = CommandSandboxes(f"{command}")
    with pytest.raises(Unsupported, match="'pod'"):
        sandboxes.make_pod()
    with pytest.raises(OSError, match="no room"):
        sandboxes.begin(Pod("uid", ()))
    with pytest.raises(NoContainer):
        sandboxes.run("sandbox", "/source", "true")


@pytest.mark.parametrize("flags", [(), LITTLE], ids=["all", "little"])
def test_the_handler_of_berth_is_right(folder, flags):
    handler = crust.Handler(folder / f"handler{len(flags)}", flags).start()
    try:
        bench = bench_at(folder / f"work{len(flags)}", handler.socket, sandboxes_of(handler))
        offers = bench.capabilities()
        assert list(broken_rules(bench, offers, CASES)) == []
        assert len([case for case in CASES if not case.missing(offers)]) > 30
        assert not handler.records() and not handler.holders()
    finally:
        handler.stop()
        handler.clear()
