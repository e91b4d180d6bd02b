"""Volumes of the block agent, which runs beside Berth and is started anew whenever it has ended."""
import shutil

from data import check, stay, write
from lib import block_agent, objects, standalone

CLUSTER = "main"


class Agent:
    """Beside a Survivor, which revives it before each try of a step."""

    def __init__(self, s):
        self.s = s
        self.agent = block_agent.BlockAgent(s.berth, "node-a", s.berth.data, s.berth.folder)
        self.agent.log.unlink(missing_ok=True)

    def revive(self):
        if self.agent.process is None or self.agent.process.poll() is not None:
            if (self.s.berth.data / "kubeconfig").exists():
                self.agent.start(env=self.s.environment)

    def stop(self):
        """In order; if the stop itself is cut short by a crash, once more."""
        while True:
            process = self.agent.process
            process.terminate()
            if process.wait(30) == 0:
                return
            assert process.returncode == -9, f"the agent ended with {process.returncode}\n{self.agent.log_tail()}"
            self.revive()
            self.s.step("the agent to listen", lambda: "installed driver" in self.agent.log.read_text())

    def kill(self):
        self.agent.kill()


def copies(s):
    """Of the node."""
    store = s.berth.data / "kubelet" / "plugins" / "kubernetes.io" / "flexvolume"
    return [path for path in store.rglob("block") if path.is_file()]


def volume(s, images, name, megabytes, **how):
    if not (images / name).exists():
        block_agent.make_image(images, name, megabytes << 20)
    for item in block_agent.volume(name, CLUSTER, size=f"{megabytes}Mi", **how):
        s.create(item)


def end(s, agent, name, *pods):
    for pod in pods:
        s.gone("pods", pod)
    s.step("the fence to go", lambda: s.berth.get("volumefences", name) is None)
    s.step("the agent to forget the volume", lambda: name not in agent.agent.records())
    s.gone("persistentvolumeclaims", name)
    s.gone("persistentvolumes", name)


def block(s):
    """One pod after the other on a volume, and two at once on one that they share."""
    images = s.berth.folder / "block-images"
    images.mkdir(exist_ok=True)
    agent = Agent(s)
    s.beside.append(agent)
    try:
        s.done("the kinds to be there", lambda: block_agent.define_kinds(s.berth))
        s.done("the cluster to be there", lambda: s.berth.apply(block_agent.storage_cluster(CLUSTER, images)))
        volume(s, images, "data", 32)
        s.running(objects.pod("writer", stay(write("/data")), ["data"]))
        s.gone("pods", "writer")
        s.run(objects.pod("reader", check("/data"), ["data"]))
        end(s, agent, "data", "reader")
        volume(s, images, "shared", 32, modes=("ReadWriteMany",))
        s.running(objects.pod("one", stay(write("/shared")), ["shared"]))
        s.running(objects.pod("two", stay(check("/shared")), ["shared"]))
        end(s, agent, "shared", "one", "two")
        s.done("the cluster to go", lambda: s.berth.run("delete", "storagecluster", CLUSTER, "--wait=false", check=False))
        s.step("the cluster to be gone", lambda: s.berth.get("storageclusters", CLUSTER) is None)
        agent.stop()
        s.beside.remove(agent)
        drivers = s.berth.data / "volume-plugins"
        shutil.rmtree(drivers / "berth.dev~block")
        (drivers / ".berth-install.lock").unlink()
        s.step("the copies of the driver to be gone", lambda: not copies(s))
    except standalone.Failure as failure:
        raise AssertionError(f"{failure}\n{agent.agent.log_tail()}") from None
    except AssertionError as failure:
        raise AssertionError(f"{failure}\nthe agent:\n{agent.agent.log_tail()}") from None
    finally:
        agent.kill()
    shutil.rmtree(images)
    shutil.rmtree(s.berth.data / "block-agent", ignore_errors=True)
