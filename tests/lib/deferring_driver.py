"""A CSI driver that leaves mounts to runtime handlers, and is wrong on command: a proxy before the driver that Berth ships."""
import contextlib
import os
import subprocess

import grpc
from lib.kubernetes.csi_proxy import CsiProxy
from lib.proto_messages import csi

# The switches, each with the name of the suite's case that catches it, and with what the driver does then.
RULES = {
    "deferral-said-to-anyone": "says the capability also to a caller that does not know it",
    "stage-mounts-before-deferral": "mounts at the staging path",
    "defers-unasked": "leaves the mount to a handler, although none was named",
    "defers-and-mounts": "leaves the mount to a handler, and mounts the volume at the target",
    "deferred-without-source": "names no source",
    "deferred-type-not-offered": "names a file system that the handler did not offer",
    "deferred-answer-changes": "names other options when the call is repeated",
    "defers-writable": "leaves 'ro' out of the options",
    "defers-what-nobody-mounts": "leaves a file system to a handler that cannot mount it",
    "mounts-what-is-deferred": "says OK to a second user of the device",
    "stats-of-deferred": "has numbers of its own for what is deferred",
    "stats-without-source": "names no source for the statistics",
    "stats-guessed": "says OK to a caller whose handler has no statistics",
    "expand-of-deferred": "names no source for the growth",
    "expand-guessed": "says OK to a caller whose handler cannot grow it",
    "deferred-target-stays": "leaves the target when it is unpublished",
}


class DeferringDriver(CsiProxy):
    def __init__(self, path, driver_socket):
        self.switches = set()
        self._published = 0
        super().__init__(path, driver_socket)

    def be_wrong(self, *switches):
        self.switches = set(switches)

    def answer(self, path, method, request, context):
        asked = getattr(csi, f"{method}Request").FromString(request)
        self._change_request(method, asked)
        failure = None
        try:
            data = self._driver.unary_unary(path)(asked.SerializeToString(), timeout=60)
        except grpc.RpcError as error:
            failure, data = error, b""
        response = getattr(csi, f"{method}Response").FromString(data)
        if failure is not None and not self._says_ok_to(method, failure):
            context.abort(failure.code(), failure.details())
        self._change_answer(method, asked, response)
        return response.SerializeToString()

    def _says_ok_to(self, method, failure):
        rules = {"NodePublishVolume": "mounts-what-is-deferred", "NodeGetVolumeStats": "stats-guessed",
                 "NodeExpandVolume": "expand-guessed"}
        return failure.code() == grpc.StatusCode.FAILED_PRECONDITION and rules.get(method) in self.switches

    def _change_request(self, method, asked):
        if method == "NodeGetCapabilities" and "deferral-said-to-anyone" in self.switches:
            asked.runtime_supports_mount = True
        if method == "NodePublishVolume" and (
                "defers-what-nobody-mounts" in self.switches or
                "defers-unasked" in self.switches and not asked.runtime_supported_filesystems):
            asked.runtime_supported_filesystems.extend(["ext4", "xfs", "btrfs"])
        # What a switch mounted is unmounted before the driver looks at it.
        if method == "NodeUnstageVolume" and "stage-mounts-before-deferral" in self.switches:
            unmount(asked.staging_target_path)
        if method == "NodeUnpublishVolume" and "defers-and-mounts" in self.switches:
            unmount(asked.target_path)

    def _change_answer(self, method, asked, response):
        on = self.switches.__contains__
        if method == "NodeStageVolume" and on("stage-mounts-before-deferral"):
            subprocess.run(["mount", "-t", "tmpfs", "staged", asked.staging_target_path], check=True)
        if method == "NodePublishVolume" and response.HasField("runtime_mount_info"):
            self._change_mount_info(asked, response.runtime_mount_info)
        if method == "NodeGetVolumeStats" and asked.runtime_supports_stats:
            if on("stats-of-deferred"):
                response.usage.add(unit="BYTES", total=1)
            if on("stats-without-source"):
                response.source = ""
        if method == "NodeExpandVolume" and on("expand-of-deferred"):
            response.source = ""
        if method == "NodeUnpublishVolume" and on("deferred-target-stays"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(asked.target_path)

    def _change_mount_info(self, asked, info):
        on = self.switches.__contains__
        self._published += 1
        if on("defers-and-mounts"):
            subprocess.run(["mount", "-t", "tmpfs", "published", asked.target_path], check=True)
        if on("deferred-without-source"):
            info.source = ""
        if on("deferred-type-not-offered"):
            info.type = "conformancefs"
        if on("deferred-answer-changes"):
            info.options[f"call{self._published}"] = ""
        if on("defers-writable"):
            del info.options["ro"]


def unmount(path):
    subprocess.run(["umount", "--lazy", path], check=False, stderr=subprocess.DEVNULL)
