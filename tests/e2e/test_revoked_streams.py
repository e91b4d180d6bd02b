"""What runs for a client ends when its certificate is revoked or its token deleted, and what runs for others goes on."""
import subprocess

import pytest
import yaml
from lib.kubectl import Kubectl, config_map, running
from lib.standalone import wait_for

pytestmark = [pytest.mark.api, pytest.mark.e2e, pytest.mark.security]

# A tick each second shows that the stream lives.
TICKS = ("exec", "web", "--", "sh", "-c", "while echo tick; do sleep 1; done")


def client(kubectl, folder, change=None):
    """Gives a client with a kubeconfig of its own, which `change` may change."""
    folder.mkdir()
    path = folder / "kubeconfig"
    document = yaml.safe_load(kubectl.kubeconfig.read_text())
    if change:
        change(document)
    path.write_text(yaml.safe_dump(document))
    return Kubectl(kubectl.binary, (1, kubectl.minor, ""), path, kubectl.ns, folder / "home")


def by_token(kubectl, berth, folder, name):
    """Gives a client with only an administrator's token, and the token's id."""
    token = berth.run("token", "create", name, "--role", "administrator").stdout.strip()

    def change(document):
        document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
    return client(kubectl, folder, change), token.split("-", 1)[1].split(".")[0]


class Streams:
    """A watch and an exec of one client, which have begun."""

    def __init__(self, kubectl, folder):
        self.processes, self.output = [], []
        for name, arguments, first in (("watch", ("get", "configmaps", "-w", "-o", "name"), "seen"),
                                       ("exec", TICKS, "tick")):
            path = folder / name
            with open(path, "wb") as out:
                self.processes.append(subprocess.Popen(kubectl.command(*arguments), env=kubectl.environment(),
                                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out))
            self.output.append(path)
            wait_for(f"the {name} to begin", lambda: first in path.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def wait_for_end(self):
        for process in self.processes:
            process.wait(60)

    def check_goes_on(self, kubectl, name):
        watched, ticks = self.output
        seen = ticks.read_text().count("tick")
        kubectl.apply(config_map(name))
        wait_for("the watch to show a change", lambda: name in watched.read_text())
        wait_for("the exec to go on", lambda: ticks.read_text().count("tick") > seen + 1)
        assert [process.poll() for process in self.processes] == [None, None]


def test_streams_end_with_their_clients_credentials(kubectl, module_berth, tmp_path):
    running(kubectl, "web")
    kubectl.apply(config_map("seen"))
    ann, _ = by_token(kubectl, module_berth, tmp_path / "ann", "ann")
    bob, bobs_token = by_token(kubectl, module_berth, tmp_path / "bob", "bob")
    holder = client(kubectl, tmp_path / "holder")
    written = kubectl.kubeconfig.read_text()
    with Streams(ann, tmp_path / "ann") as anns, Streams(bob, tmp_path / "bob") as bobs, \
            Streams(holder, tmp_path / "holder") as holders:
        assert "revoked" in module_berth.run("certificate", "revoke", holder.kubeconfig).stdout
        holders.wait_for_end()
        wait_for("the new kubeconfig", lambda: kubectl.kubeconfig.read_text() != written)
        bobs.check_goes_on(kubectl, "after-the-certificate")
        module_berth.run("token", "delete", bobs_token)
        bobs.wait_for_end()
        anns.check_goes_on(kubectl, "after-the-token")
