"""Service Identity, and the rules for every call."""
import re
import time

from case import case

GENERAL = "Error Scheme"


@case("name-empty", "GetPluginInfo", "name is required")
def _(bench):
    assert bench.call("GetPluginInfo").name


@case("name-no-domain", "GetPluginInfo", "name is a domain name of at most 63 characters")
def _(bench):
    name = bench.call("GetPluginInfo").name
    assert len(name) <= 63 and re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name), repr(name)


@case("never-ready", "Probe", "a driver becomes ready, or says why not")
def _(bench):
    deadline = time.monotonic() + bench.driver.seconds / 10
    while True:
        answer = bench.call("Probe")
        if not answer.HasField("ready") or answer.ready.value:
            return
        assert time.monotonic() < deadline, "it is still initialising"
        time.sleep(0.05)


@case("capabilities-change", "GetPluginCapabilities", "the same capabilities from every instance of a version")
def _(bench):
    first = bench.capabilities()
    for _ in range(3):
        again = bench.capabilities()
        assert again == first, f"{sorted(first)}, then {sorted(again)}"


@case("error-without-message", GENERAL, "an error has a message")
@case("error-with-details", GENERAL, "an error has no details")
def _(bench):
    # Every call is checked for this rule; this call must fail.
    bench.refuses("NodePublishVolume", "INVALID_ARGUMENT")
