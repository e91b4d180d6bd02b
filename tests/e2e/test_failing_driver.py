"""A Flexvolume driver whose init fails is reported everywhere that people look, and hides no other."""
import re

import pytest
from lib import flex
from lib.standalone import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.flex]

GOOD = """#!/bin/sh
case $1 in
  init) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;
  *) echo '{"status": "Not supported"}'; exit 1 ;;
esac
"""
BAD = "#!/bin/sh\necho it is broken\n"


def test_is_told_by_event_log_metric_and_get_drivers(new_berth):
    berth = new_berth(flags=["--http-endpoint", "127.0.0.1:0"]).start()
    drivers = berth.data / "volume-plugins"
    flex.install(drivers, "example.com/bad", BAD)
    flex.install(drivers, "example.com/good", GOOD)

    def listed():
        lines = [line.split(maxsplit=4) for line in berth.run("get", "drivers").stdout.splitlines()]
        return {name: (kind, node, state, *reason) for name, kind, node, state, *reason in lines[1:]}

    wait_for("both drivers to be listed", lambda: {"example.com/bad", "example.com/good"} <= listed().keys())
    assert listed()["example.com/good"] == ("Flexvolume", "node-a", "Ready")
    kind, node, state, reason = listed()["example.com/bad"]
    assert (kind, node, state) == ("Flexvolume", "node-a", "Failed") and "it is broken" in reason

    text = berth.metrics()
    assert 'berth_flexvolume_driver_ready{driver="example.com/good"} 1' in text
    assert 'berth_flexvolume_driver_ready{driver="example.com/bad"} 0' in text
    assert re.search(r'berth_flexvolume_driver_init_failures_total\{driver="example.com/bad"\} [1-9]', text)
    wait_for("an event of the node", lambda: [
        event for event in berth.items("events") if event["reason"] == "VolumePluginNotReady"
        and "it is broken" in event["message"] and event["involvedObject"]["name"] == "node-a"])
    assert "it is broken" in berth.log.read_text()

    # The author repairs the driver.
    flex.install(drivers, "example.com/bad", GOOD)
    wait_for("it to be ready", lambda: listed()["example.com/bad"] == ("Flexvolume", "node-a", "Ready"))
