"""What a handler offers, and what it has to refuse because it does not offer it."""
import re

from crust_bench import MIB, asked
from crust_case import BLOCK, case
from lib.proto_messages import crust

CAPABILITIES = "RuntimeGetCapabilities"
FILE_SYSTEMS = "RuntimeGetSupportedFileSystems"
GROUP = {"fsgroup_gid": 4242}


@case("capability-unknown", CAPABILITIES, "each capability has a number of the API, or of a later one, and is said once")
def _(bench):
    said = [item.rpc.type for item in bench.call(CAPABILITIES).capabilities]
    assert len(said) == len(set(said)), f"said twice: {said}"
    known = set(crust.RuntimeCapability.RPC.Type.values()) - {crust.RuntimeCapability.RPC.UNKNOWN}
    never = [number for number in said if number not in known and number <= max(known)]
    assert not never, f"numbers that mean nothing: {never}"


@case("offer-changes", CAPABILITIES, "the same answer each time")
def _(bench):
    first = bench.capabilities(), bench.file_systems()
    for _ in range(3):
        again = bench.capabilities(), bench.file_systems()
        assert again == first, f"{first}, then {again}"


@case("file-system-malformed", FILE_SYSTEMS, "at most 64 names as mount(2) has them, each once")
def _(bench):
    said = bench.file_systems()
    assert len(said) <= 64 and len(said) == len(set(said)), said
    for name in said:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name), repr(name)


@case("error-without-message", "every call", "an error has a message")
def _(bench):
    # Every call is checked for this rule; this call must fail.
    bench.refuses("RuntimePublishVolume", "INVALID_ARGUMENT")


@case("mounts-unoffered-file-system", "RuntimePublishVolume", "FAILED_PRECONDITION for a file system that is not offered", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for name in ("conformancefs", "../ext4"):
        bench.refuses("RuntimePublishVolume", "FAILED_PRECONDITION", "INVALID_ARGUMENT",
                      **bench.request(device, pod.targets[0], sandbox_id=sandbox) | {"file_system": name})
    bench.wait_free(device, 2)


@case("stats-unoffered", "RuntimeGetVolumeStats", "UNIMPLEMENTED or FAILED_PRECONDITION without VOLUME_STATS",
      (BLOCK, "not VOLUME_STATS"))
def _(bench):
    _, named = bench.published()
    bench.refuses("RuntimeGetVolumeStats", "UNIMPLEMENTED", "FAILED_PRECONDITION", **asked(named))


@case("expand-unoffered", "RuntimeExpandVolume", "FAILED_PRECONDITION without VOLUME_RESIZE", (BLOCK, "not VOLUME_RESIZE"))
def _(bench):
    _, named = bench.published()
    bench.refuses("RuntimeExpandVolume", "FAILED_PRECONDITION", **asked(named, required_bytes=MIB))


@case("fs-group-unoffered", "RuntimePublishVolume", "FAILED_PRECONDITION for an fsGroup whose policy is not offered",
      (BLOCK, "not FS_GROUP_CHANGE_POLICY_ALWAYS"))
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for policy in ("", "Always"):
        bench.refuses("RuntimePublishVolume", "FAILED_PRECONDITION",
                      **bench.request(device, pod.targets[0], sandbox_id=sandbox, fsgroup_policy=policy, **GROUP))


@case("fs-group-mismatch-unoffered", "RuntimePublishVolume", "FAILED_PRECONDITION for an fsGroup whose policy is not offered",
      (BLOCK, "not FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH"))
def _(bench):
    pod, sandbox = bench.sandbox()
    bench.refuses("RuntimePublishVolume", "FAILED_PRECONDITION",
                  **bench.request(bench.device(), pod.targets[0], sandbox_id=sandbox, fsgroup_policy="OnRootMismatch", **GROUP))


@case("relabel-unoffered", "RuntimePublishVolume", "FAILED_PRECONDITION for a label of each file without SELINUX_RELABEL",
      (BLOCK, "not SELINUX_RELABEL"))
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for label in ("", "system_u:object_r:container_file_t:s0"):
        bench.refuses("RuntimePublishVolume", "FAILED_PRECONDITION",
                      **bench.request(device, pod.targets[0], sandbox_id=sandbox, selinux_label=label, selinux_relabel=True))
    bench.wait_free(device, 2)


@case("sub-path-unoffered", "a container's mounts", "no container gets a folder of a volume without SUBPATH",
      (BLOCK, "not SUBPATH"))
def _(bench):
    _, named = bench.published()
    bench.refuses_container(named["sandbox_id"], named["host_target_path"] + "/folder", "touch inside")


@case("pod-unoffered", "RuntimePublishVolume", "UNIMPLEMENTED or INVALID_ARGUMENT for a pod without POD_VOLUMES",
      (BLOCK, "not POD_VOLUMES"))
def _(bench):
    pod = bench.pod()
    # A handler from before POD_VOLUMES sees an empty sandbox_id.
    bench.refuses("RuntimePublishVolume", "UNIMPLEMENTED", "INVALID_ARGUMENT",
                  **bench.request(bench.device(), pod.targets[0], pod_uid=pod.uid))
