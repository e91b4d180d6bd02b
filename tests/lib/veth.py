"""A veth pair between this machine's network and that of a server for one test."""
import subprocess
import uuid


class Veth:
    """`ours` and `address` are the two ends of a /30 network that this machine does not route yet. The network is
    chosen at random, because tests run at the same time."""

    def __init__(self, prefix):
        self.link = f"{prefix}{uuid.uuid4().hex[:8]}"
        for _ in range(50):
            number = uuid.uuid4().int % (1 << 14)
            net = f"10.214.{number >> 6}"
            first = (number & 63) << 2
            self.ours, self.address = f"{net}.{first + 1}", f"{net}.{first + 2}"
            routes = subprocess.run(["ip", "-o", "route"], capture_output=True, text=True, check=True).stdout
            if f"{net}.{first}/30" not in routes:
                break

    def connect(self, pid, link="eth0", inside=()):
        """Gives `address` to the link of this name in the network namespace of a process. `inside` is the beginning of a command
        that runs where our end is to be, if that is not the network namespace of this process."""
        enter = ["nsenter", "--target", str(pid), "--net"]
        for where, command in (
                (inside, ["link", "add", self.link, "type", "veth", "peer", "name", link, "netns", str(pid)]),
                (inside, ["address", "add", f"{self.ours}/30", "dev", self.link]),
                (inside, ["link", "set", self.link, "up"]),
                (enter, ["address", "add", f"{self.address}/30", "dev", link]),
                (enter, ["link", "set", link, "up"])):
            subprocess.check_call([*where, "ip", *command])

    def set_link(self, state):
        """"down": packets get lost, in both directions. "up": they pass again."""
        subprocess.check_call(["ip", "link", "set", self.link, state])

    def delete(self):
        subprocess.run(["ip", "link", "delete", self.link], capture_output=True)
