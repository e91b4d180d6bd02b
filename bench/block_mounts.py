"""Measures mounts by the Flexvolume driver and the block agent, and losetup and mount by hand on the same images."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import time

from lib import block_agent, local_api, mounts

NODE = "bench-node"
MEGABYTES = 16
# Durable records that a mount writes one after the other: three of the agent's own, and two objects of the API.
RECORDS, OBJECTS = 3, 2


class Site:
    """A block agent with volumes that are formatted already."""

    def __init__(self, berth, folder, count):
        self.folder = folder
        self.images = folder / "images"
        self.images.mkdir(parents=True)
        self.api = local_api.LocalApi(berth.data / "api.sock", timeout=60)
        self.names = [f"block-{number:03}" for number in range(count)]
        block_agent.define_kinds(berth)
        berth.apply(block_agent.storage_cluster("bench", self.images))
        # The agent has its own node, so that no other agent runs its pods or removes its fences.
        berth.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.agent = block_agent.BlockAgent(berth, NODE, folder / "d", folder)
        (folder / "d" / "volume-plugins").mkdir(parents=True)
        self.agent.start()
        self.driver = folder / "d" / "volume-plugins" / "berth.dev~block" / "block"
        block_agent.wait_for("the driver", self.driver.exists)
        self.call("init")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.calls = dict(zip(self.names, pool.map(self._volume, self.names)))

    def _volume(self, name):
        image = block_agent.make_image(self.images, name, MEGABYTES << 20)
        subprocess.run(["mkfs.ext4", "-q", "-b", "4096", image], check=True)
        for item in block_agent.volume(name, "bench", size=f"{MEGABYTES}Mi"):
            item["metadata"].setdefault("namespace", "default")
            if item["kind"] == "PersistentVolume":
                del item["metadata"]["namespace"]
            self.api.create(item)
        pod = self.api.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": NODE, "schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}],
                     "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}})
        # The agent mounts for a pod only what its claim is bound to.
        block_agent.wait_for(f"the claim {name} to be bound", lambda: self.api.get("persistentvolumeclaims", name)
                             .get("status", {}).get("phase") == "Bound")
        uid = (pod or self.api.get("pods", name))["metadata"]["uid"]
        target = self.folder / "d" / "kubelet" / "pods" / uid / "volumes" / "berth.dev~block" / name
        target.mkdir(parents=True)
        options = {"kubernetes.io/fsType": "ext4", "kubernetes.io/readwrite": "rw", "kubernetes.io/pod.name": name,
                   "kubernetes.io/pod.namespace": "default", "kubernetes.io/pod.uid": uid,
                   "kubernetes.io/pvOrVolumeName": name}
        return target, json.dumps(options)

    def call(self, *arguments):
        done = subprocess.run([self.driver, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments[0]}: {done.stdout}{done.stderr}\n{self.agent.log_tail(20)}")

    def mount(self, name):
        self.call("mount", *self.calls[name])

    def unmount(self, name):
        self.call("unmount", self.calls[name][0])

    def mount_by_hand(self, name):
        """Mounts the volume without Berth, and returns the loop device."""
        device = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", self.images / name],
                                capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["mount", "-t", "ext4", device, self.calls[name][0]], check=True)
        return device

    def unmount_by_hand(self, name, device):
        subprocess.run(["umount", self.calls[name][0]], check=True)
        subprocess.run(["losetup", "--detach", device], check=True)

    def close(self):
        self.agent.stop()
        mounts.unmount_below(self.folder)
        mounts.detach_loops_below(self.folder)
        for name in self.names:
            # No kubelet runs for the node, so nobody would confirm an orderly end of the pod.
            self.api.call("DELETE", f"{local_api.PATHS['pods']}/{name}?gracePeriodSeconds=0")
        for name in self.names:
            self.api.delete("persistentvolumeclaims", name)
            self.api.delete("persistentvolumes", name)
        shutil.rmtree(self.folder)


def _time(action, *arguments):
    """Returns the milliseconds that the action took, and its result."""
    began = time.monotonic()
    value = action(*arguments)
    return (time.monotonic() - began) * 1000, value


def measure_durable_file_ms(folder, runs=40):
    """Returns the median time in milliseconds of one durable record: write, fsync, rename, fsync of the folder."""
    def write_record(number):
        with open(folder / ".probe", "wb") as file:
            file.write(b"x" * 1024)
            file.flush()
            os.fsync(file.fileno())
        os.rename(folder / ".probe", folder / "probe")
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        (folder / "probe").unlink()
    return statistics.median(_time(write_record, number)[0] for number in range(runs))


def measure_one(berth, folder, runs=40):
    """Returns sorted milliseconds of mounts through the agent and by hand, and the median of one durable record."""
    site = Site(berth, pathlib.Path(folder), 1)
    try:
        name, = site.names
        through, hand = [], []
        for number in range(runs + 3):
            took, _ = _time(site.mount, name)
            site.unmount(name)
            by_hand, device = _time(site.mount_by_hand, name)
            site.unmount_by_hand(name, device)
            if number >= 3:  # the first rounds are the warm-up
                through.append(took)
                hand.append(by_hand)
        return sorted(through), sorted(hand), measure_durable_file_ms(site.folder)
    finally:
        site.close()


def measure_driver_start(berth, folder, runs=300):
    """Returns sorted milliseconds from a start of the driver to its request. This process acts as the agent."""
    site = Site(berth, pathlib.Path(folder), 1)
    try:
        site.agent.stop()
        arguments = [site.driver, "mount", *site.calls[site.names[0]]]
        with socket.socket(socket.AF_UNIX) as listener:
            site.agent.socket.unlink(missing_ok=True)
            listener.bind(str(site.agent.socket))
            listener.listen()

            def start_driver():
                began = time.monotonic()
                pid = os.posix_spawn(site.driver, list(map(str, arguments)), os.environ,
                                     file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
                connection, _ = listener.accept()
                with connection:
                    if not connection.recv(1):
                        raise RuntimeError("the driver sent nothing")
                    took = (time.monotonic() - began) * 1000
                os.kill(pid, signal.SIGKILL)  # otherwise it would repeat the request
                os.waitpid(pid, 0)
                return took
            return sorted([start_driver() for _ in range(runs + 20)][20:])  # the first runs are the warm-up
    finally:
        site.close()


def measure_at_once(berth, folder, count=200, rounds=5):
    """Returns median seconds of all mounts at once, and of the same by hand, two at a time, in turns."""
    site = Site(berth, pathlib.Path(folder), count)
    through, hand = [], []
    try:
        for _ in range(rounds):
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda _: time.sleep(0.05), range(count)))  # starts the threads
                took, _ = _time(lambda: list(pool.map(site.mount, site.names)))
                list(pool.map(site.unmount, site.names))
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                by_hand, devices = _time(lambda: list(pool.map(site.mount_by_hand, site.names)))
                list(pool.map(site.unmount_by_hand, site.names, devices))
            through.append(took / 1000)
            hand.append(by_hand / 1000)
        return statistics.median(through), statistics.median(hand)
    finally:
        site.close()
