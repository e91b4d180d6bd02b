#!/usr/bin/python3
"""A CRUST handler that keeps all rules of docs/crust.md, and is wrong on command: each rule that it can break is a switch (RULES),
set at run time by a file.

    crust_double.py --list
    crust_double.py --folder FOLDER --host-pid PID [--capabilities A,B] [--file-systems ext4,xfs]

It mounts volumes in its own mount namespace (start it with unshare --mount), and placeholders in that of the process PID. It
serves CRUST at FOLDER/crust.sock, reads the switches from FOLDER/switches, one a line, and learns of pods and sandboxes at
FOLDER/control.sock, where tests/doubles/crust_sandboxes.py asks.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc  # noqa: E402

from lib.proto_messages import crust  # noqa: E402

# The switches by which the suite's cases are broken: each has the name of the case that catches it. The second word is what the
# double does then.
RULES = {
    "hangs": "does not answer a publish",
    "dies": "ends in place of answering a publish",
    "unknown-code": "fails a publish with UNKNOWN",
    "error-without-message": "leaves the message of an error empty",
    "negative-number": "says -1 bytes",
    "aborted-forever": "takes a sandbox for busy after a call that the caller gave up",
    "capability-unknown": "says number 0",
    "offer-changes": "says other file systems at each call",
    "file-system-malformed": "says 'EXT4 '",
    "mounts-unoffered-file-system": "says OK to each file system",
    "stats-unoffered": "has numbers, although it does not say VOLUME_STATS",
    "expand-unoffered": "says OK, although it does not say VOLUME_RESIZE",
    "fs-group-unoffered": "says OK to an fsGroup, although it does not apply one",
    "fs-group-mismatch-unoffered": "says OK to OnRootMismatch, although it does not apply it",
    "sub-path-unoffered": "gives a container the folder, although it does not say SUBPATH",
    "relabel-unoffered": "says OK to a label for each file, although it sets none",
    "pod-unoffered": "says OK to a request without a sandbox",
    "publishes-nothing": "says OK and mounts nothing",
    "mounts-on-the-host": "mounts at the target on the host",
    "publish-twice-fails": "says ALREADY_EXISTS to the same call",
    "publish-twice-mounts-twice": "mounts over the mount",
    "publish-ignores-conflict": "says OK to another volume at the target",
    "accepts-empty-fields": "says OK to a request without a device",
    "accepts-unclean-target": "says OK to any target",
    "accepts-foreign-target": "says OK to the target of another pod",
    "accepts-control-characters": "says OK to options that are not printable",
    "accepts-too-much": "says OK to any number of options",
    "accepts-bad-label": "says OK to any text as a label",
    "relabel-refused": "says FAILED_PRECONDITION to a label for each file, although it says SELINUX_RELABEL",
    "ignores-unknown-option": "leaves out what the file system does not know",
    "unknown-sandbox": "says OK to a sandbox that it does not know",
    "missing-device": "says INTERNAL where there is no device",
    "formats-empty-device": "makes a file system on a device that has none",
    "publishes-over-host-mount": "says OK, although the host has something mounted at the target",
    "writes-to-readonly": "mounts a device for writing, and then makes the mount read-only",
    "ignores-readonly": "leaves out 'ro'",
    "ignores-option-order": "puts 'ro' last",
    "ignores-options": "leaves out all options but 'ro' and 'rw'",
    "mixes-up-volumes": "gives containers the first volume of the sandbox, always",
    "two-calls-at-once": "says ABORTED to a second call, and means it",
    "given-up-call": "says FAILED_PRECONDITION when a call that the caller gave up is repeated",
    "fs-group-ignored": "changes the root alone",
    "fs-group-always-skips": "takes Always for OnRootMismatch",
    "fs-group-mismatch-walks": "takes OnRootMismatch for Always",
    "fs-group-mismatch-ignored": "looks at the root's group, and not at its mode",
    "fs-group-of-readonly": "gives a read-only volume to the group",
    "accepts-bad-group": "says OK to a negative group",
    "unpublish-keeps-device": "says OK and keeps the volume",
    "unpublish-twice-fails": "says NOT_FOUND for what is not published",
    "unpublish-ignores-source": "unmounts what is at the target, whatever it is",
    "unpublish-of-any-sandbox": "says OK to no sandbox and does nothing",
    "target-stays-taken": "remembers the arguments of what it unpublished",
    "sandbox-end-keeps-device": "keeps the volumes of a sandbox that has ended",
    "stats-wrong": "says the host's root file system",
    "condition-wrong": "says that each volume is abnormal",
    "stats-stand-still": "says the numbers of the first call",
    "stats-of-nothing": "says zeros for a volume that it does not know",
    "stats-one-at-a-time": "says RESOURCE_EXHAUSTED to a second call",
    "grows-nothing": "says OK and leaves the file system as it is",
    "expand-below": "says the capacity from before",
    "grows-beyond-device": "says OK, although the device is too small",
    "grows-what-is-nowhere": "says OK for a volume that it does not know",
    "sub-path-missing": "gives no folder that is not there",
    "sub-path-escapes": "follows symlinks out of the volume",
    "pod-and-sandbox": "takes the sandbox if a request names a pod, too",
    "pod-target-unchecked": "says OK to the target of another pod",
    "pod-without-placeholder": "mounts no placeholder",
    "pod-sandbox-without-volume": "begins the sandbox without the pod's volumes",
    "pod-publish-not-idempotent": "mounts another placeholder at each call",
    "pod-keeps-placeholder": "leaves the placeholder",
    "pod-stats": "says NOT_FOUND for a pod's volume",
    "pod-sub-path": "does not know what a folder of a placeholder means",
}

Code = grpc.StatusCode
Rpc = crust.RuntimeCapability.RPC
ALL = ("FS_GROUP_CHANGE_POLICY_ALWAYS", "FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH", "SUBPATH", "SELINUX_RELABEL",
       "VOLUME_STATS", "VOLUME_RESIZE", "POD_VOLUMES")
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
LABEL = re.compile("[^:]+:[^:]+:[^:]+(:.+)?")
FOLDER_MODE = stat.S_ISGID | 0o770


class Error(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def run(*command):
    return subprocess.run(list(map(str, command)), check=False, text=True, capture_output=True)


def printable(text):
    return all(ord(c) >= 0x20 and ord(c) != 0x7f for c in text)


class Volume:
    """A volume at a target of a sandbox, or of a pod (`folder` None)."""

    def __init__(self, request, folder):
        self.request = request
        self.folder = folder

    def key(self):
        """What a repeated publish must have in common."""
        request = type(self.request)()
        request.CopyFrom(self.request)
        request.sandbox_id = request.pod_uid = ""
        return request.SerializeToString(deterministic=True)


class Sandbox:
    def __init__(self, name, pod):
        self.name = name
        self.pod = pod
        self.lock = threading.Lock()
        self.volumes = {}  # by target
        self.taken = {}  # what was at a target at first, for target-stays-taken
        self.numbers = {}
        self.stuck = False
        self.given_up = False


class Double:
    def __init__(self, options):
        self.folder = pathlib.Path(options.folder)
        self.host_pid = options.host_pid
        self.capabilities = options.capabilities.split(",")
        self.file_systems = options.file_systems.split(",")
        self.lock = threading.RLock()
        self.pods = {}  # uid: targets
        self.pod_volumes = {}  # (uid, target): Volume
        self.sandboxes = {}
        self.forgotten = []  # folders of sandboxes that ended with their volumes
        self.count = 0
        self.stats_running = 0

    def on(self, rule):
        try:
            return rule in (self.folder / "switches").read_text().splitlines()
        except FileNotFoundError:
            return False

    def has(self, capability):
        return capability in self.capabilities

    # -- the runtime's side

    def control(self, request):
        return getattr(self, f"control_{request['verb']}")(**{name: value for name, value in request.items() if name != "verb"})

    def control_pod(self):
        uid = str(uuid.uuid4())
        folder = self.folder / "pods" / uid / "volumes"
        self.pods[uid] = [str(folder / "kubernetes.io~csi" / name / "mount") for name in ("a", "b", "c")]
        for target in self.pods[uid]:
            os.makedirs(target)
        return {"uid": uid, "targets": self.pods[uid]}

    def control_forget(self, pod):
        self.pods.pop(pod, None)
        shutil.rmtree(self.folder / "pods" / pod, ignore_errors=True)
        return {}

    def control_begin(self, pod):
        with self.lock:
            sandbox = Sandbox(uuid.uuid4().hex, pod)
            self.sandboxes[sandbox.name] = sandbox
            for (owner, target), volume in self.pod_volumes.items():
                if owner == pod and not self.on("pod-sandbox-without-volume"):
                    self.mount(sandbox, target, volume.request)
        return {"sandbox": sandbox.name}

    def control_end(self, sandbox):
        with self.lock:
            ended = self.sandboxes.pop(sandbox)
            for volume in ended.volumes.values():
                if self.on("sandbox-end-keeps-device"):
                    self.forgotten.append(volume.folder)
                else:
                    self.unmount(volume.folder)
        return {}

    def control_reset(self):
        """Unmounts all that a wrong handler kept."""
        with self.lock:
            for sandbox in list(self.sandboxes):
                self.control_end(sandbox)
            for folder in self.forgotten:
                self.unmount(folder)
            self.forgotten.clear()
            for _, target in self.pod_volumes:
                self.on_host("umount", "--lazy", target)
            self.pod_volumes.clear()
        return {}

    def control_locate(self, sandbox, source):
        """Gives the folder that a container of the sandbox gets for this source of a mount, and this process, which sees it."""
        with self.lock:
            found = self.sandboxes[sandbox]
            target, below = self.find_target(found, source)
            volume = found.volumes.get(target)
            if volume is None:
                raise Error(Code.FAILED_PRECONDITION, f"{source} is no volume of the sandbox")
            if self.on("mixes-up-volumes"):
                volume = next(iter(found.volumes.values()))
            if below and not self.has("SUBPATH") and not self.on("sub-path-unoffered"):
                raise Error(Code.FAILED_PRECONDITION, "no subPath")
            folder = volume.folder / below
            inside = os.path.realpath(folder) == str(folder)
            if not inside and not self.on("sub-path-escapes"):
                raise Error(Code.PERMISSION_DENIED, "the subPath leads out of the volume")
            if not folder.exists() and not self.on("sub-path-missing"):
                folder.mkdir(parents=True)
        return {"folder": str(folder), "pid": os.getpid()}

    def find_target(self, sandbox, source):
        """Gives the target that a mount's source is below, and the path below it."""
        for target in sandbox.volumes:
            if source == target or source.startswith(f"{target}/"):
                return target, source[len(target) + 1:]
        # A bind mount of a placeholder's folder: it has the placeholder's number, and the folder as its root.
        with open(f"/proc/{self.host_pid}/mountinfo") as table:
            rows = {line.split()[4]: line.split() for line in table}
        if source in rows and not self.on("pod-sub-path"):
            for target in sandbox.volumes:
                if target in rows and rows[target][2] == rows[source][2]:
                    return target, rows[source][3].lstrip("/")
        return None, ""

    # -- the API

    def RuntimeGetCapabilities(self, request, context):
        types = [Rpc.Type.Value(name) for name in self.capabilities]
        if self.on("capability-unknown"):
            types.append(0)
        return crust.RuntimeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": each}} for each in types])

    def RuntimeGetSupportedFileSystems(self, request, context):
        names = list(self.file_systems)
        if self.on("file-system-malformed"):
            names.append("EXT4 ")
        if self.on("offer-changes"):
            self.count += 1
            names.append(f"fs{self.count}")
        return crust.RuntimeGetSupportedFileSystemsResponse(file_systems=names)

    def RuntimePublishVolume(self, request, context):
        if self.on("hangs"):
            while context.is_active():
                time.sleep(0.02)
        if self.on("dies"):
            os._exit(1)
        if self.on("unknown-code"):
            raise Error(Code.UNKNOWN, "something")
        pod = self.pod_of(request)
        if pod is not None:
            return self.publish_for_pod(request, pod)
        with self.held(request) as sandbox:
            if sandbox is None:
                return crust.RuntimePublishVolumeResponse()
            self.wait_given_up(sandbox, context)
            self.check(request, sandbox.pod)
            self.publish(sandbox, request)
        return crust.RuntimePublishVolumeResponse()

    def RuntimeUnpublishVolume(self, request, context):
        pod = self.pod_of(request)
        if pod is not None:
            self.unpublish_for_pod(request, pod)
        elif request.sandbox_id:
            with self.held(request, missing_ok=True) as sandbox:
                if sandbox is not None:
                    self.unpublish(sandbox, request)
        elif not self.on("unpublish-of-any-sandbox"):
            for sandbox in list(self.sandboxes.values()):
                self.unpublish(sandbox, request)
        return crust.RuntimeUnpublishVolumeResponse()

    def RuntimeGetVolumeStats(self, request, context):
        if not self.has("VOLUME_STATS") and not self.on("stats-unoffered"):
            raise Error(Code.UNIMPLEMENTED, "no statistics")
        self.stats_running += 1
        try:
            if self.on("stats-one-at-a-time"):
                time.sleep(0.05)
                if self.stats_running > 1:
                    raise Error(Code.RESOURCE_EXHAUSTED, "another call runs")
            return self.stats(request)
        finally:
            self.stats_running -= 1

    def stats(self, request):
        response = crust.RuntimeGetVolumeStatsResponse()
        try:
            sandbox, volume = self.find(request)
        except Error:
            if not self.on("stats-of-nothing"):
                raise
            return response
        found = os.statvfs("/" if self.on("stats-wrong") else volume.folder)
        if self.on("stats-stand-still"):
            found = sandbox.numbers.setdefault(volume.folder, found)
        total = -1 if self.on("negative-number") else found.f_blocks * found.f_frsize
        response.usage.add(unit="BYTES", total=total, used=(found.f_blocks - found.f_bfree) * found.f_frsize,
                           available=found.f_bavail * found.f_frsize)
        response.usage.add(unit="INODES", total=found.f_files, used=found.f_files - found.f_ffree, available=found.f_favail)
        response.volume_condition.abnormal = self.on("condition-wrong")
        response.volume_condition.message = "the file system answers"
        return response

    def RuntimeExpandVolume(self, request, context):
        if not self.has("VOLUME_RESIZE"):
            if self.on("expand-unoffered"):
                return crust.RuntimeExpandVolumeResponse(capacity_bytes=request.required_bytes)
            raise Error(Code.FAILED_PRECONDITION, "no growth")
        try:
            _, volume = self.find(request)
        except Error:
            if not self.on("grows-what-is-nowhere"):
                raise
            return crust.RuntimeExpandVolumeResponse(capacity_bytes=request.required_bytes)
        with open(volume.request.host_volume_id, "rb") as device:
            size = device.seek(0, os.SEEK_END)
        if size < request.required_bytes and not self.on("grows-beyond-device"):
            raise Error(Code.UNAVAILABLE, f"the device has {size} bytes: it has to grow first")
        if not self.on("grows-nothing"):
            grow = ["xfs_growfs", volume.folder] if volume.request.file_system == "xfs" else \
                ["resize2fs", volume.request.host_volume_id]
            ran = run(*grow)
            if ran.returncode != 0:
                raise Error(Code.INTERNAL, f"grow: {ran.stderr}")
        return crust.RuntimeExpandVolumeResponse(capacity_bytes=1 if self.on("expand-below") else size)

    # -- requests

    def pod_of(self, request):
        """Gives the pod that the request names, or None if it names a sandbox."""
        if not request.pod_uid:
            return None
        if not self.has("POD_VOLUMES"):
            if self.on("pod-unoffered"):
                return request.pod_uid
            raise Error(Code.INVALID_ARGUMENT, "the request names no sandbox")
        if request.sandbox_id:
            if self.on("pod-and-sandbox"):
                return None
            raise Error(Code.INVALID_ARGUMENT, "the request names a pod and a sandbox")
        if "/" in request.pod_uid:
            raise Error(Code.INVALID_ARGUMENT, "this is no pod")
        return request.pod_uid

    @contextlib.contextmanager
    def held(self, request, missing_ok=False):
        """Gives the request's sandbox, alone; None: there is none, and that is no error."""
        name = request.sandbox_id
        if not name or "/" in name or len(name) > 128 or not printable(name):
            raise Error(Code.INVALID_ARGUMENT, "this is no sandbox")
        sandbox = self.sandboxes.get(name)
        if sandbox is None:
            if missing_ok and self.on("unpublish-twice-fails"):
                raise Error(Code.NOT_FOUND, "there is no such sandbox")
            if not missing_ok and not self.on("unknown-sandbox"):
                raise Error(Code.NOT_FOUND, "there is no such sandbox")
            yield None
            return
        if sandbox.stuck:
            raise Error(Code.ABORTED, "another call is at work")
        if sandbox.lock.locked() and self.on("two-calls-at-once"):
            raise Error(Code.FAILED_PRECONDITION, "another call is at work")
        with sandbox.lock:
            if self.on("two-calls-at-once"):
                time.sleep(0.05)
            yield sandbox

    def wait_given_up(self, sandbox, context):
        """With a switch on, waits whether the caller gives up, and then takes offence."""
        if self.on("aborted-forever") or self.on("given-up-call"):
            if sandbox.given_up:
                raise Error(Code.FAILED_PRECONDITION, "an earlier call was given up")
            deadline = time.monotonic() + 5
            while context.is_active() and time.monotonic() < deadline:
                time.sleep(0.005)
            if not context.is_active():
                sandbox.stuck = self.on("aborted-forever")
                sandbox.given_up = self.on("given-up-call")

    def find(self, request):
        """Gives the sandbox and the volume of a request about a published volume."""
        pod = self.pod_of(request)
        if pod is not None and self.on("pod-stats"):
            raise Error(Code.NOT_FOUND, "the pod has no such volume")
        with self.lock:
            for sandbox in self.sandboxes.values():
                if sandbox.name == request.sandbox_id or pod is not None and sandbox.pod == pod:
                    for volume in sandbox.volumes.values():
                        if volume.request.host_volume_id == request.host_volume_id:
                            return sandbox, volume
        raise Error(Code.NOT_FOUND, "there is no such volume")

    def check(self, request, pod):
        """Checks a publish; the order is that of the fields' importance for who sees the error."""
        target = request.host_target_path
        if not self.on("accepts-unclean-target"):
            if not target.startswith("/") or len(target) > 4095 or not printable(target) or os.path.normpath(target) != target:
                raise Error(Code.INVALID_ARGUMENT, "the target is no path")
            foreign = "pod-target-unchecked" if request.pod_uid else "accepts-foreign-target"
            if target not in self.pods.get(pod, ()) and not self.on(foreign):
                raise Error(Code.PERMISSION_DENIED, "the target is not the pod's")
        if not request.file_system:
            raise Error(Code.INVALID_ARGUMENT, "there is no file system")
        if request.file_system not in self.file_systems and not self.on("mounts-unoffered-file-system"):
            raise Error(Code.FAILED_PRECONDITION, "the file system is not offered")
        self.check_options(request)
        self.check_label(request)
        self.check_group(request)
        self.check_device(request)
        with open(f"/proc/{self.host_pid}/mountinfo") as table:
            mounted = target in [line.split()[4] for line in table]
        if mounted and not request.pod_uid and not self.on("publishes-over-host-mount"):
            raise Error(Code.FAILED_PRECONDITION, "something is mounted at the target")

    def check_options(self, request):
        if len(request.mount_options) > 128 or any(len(option) > 1024 for option in request.mount_options):
            if not self.on("accepts-too-much"):
                raise Error(Code.INVALID_ARGUMENT, "the options are too many, or too long")
        if not all(option and printable(option) for option in request.mount_options):
            if not self.on("accepts-control-characters"):
                raise Error(Code.INVALID_ARGUMENT, "an option is not printable")

    def check_label(self, request):
        label = request.selinux_label
        bad = len(label) > 4096 or not printable(label) or request.selinux_relabel and label and not LABEL.fullmatch(label)
        if bad and not self.on("accepts-bad-label"):
            raise Error(Code.INVALID_ARGUMENT, "this is no label")
        offered = self.has("SELINUX_RELABEL") and not self.on("relabel-refused")
        if request.selinux_relabel and not offered and not self.on("relabel-unoffered"):
            raise Error(Code.FAILED_PRECONDITION, "no labels of files")

    def check_group(self, request):
        if not request.HasField("fsgroup_gid"):
            return
        if not 0 <= request.fsgroup_gid < 2**32 - 1 and not self.on("accepts-bad-group"):
            raise Error(Code.INVALID_ARGUMENT, "this is no group")
        mismatch = request.fsgroup_policy == "OnRootMismatch"
        if request.fsgroup_policy not in ("", "Always", "OnRootMismatch"):
            raise Error(Code.INVALID_ARGUMENT, "there is no such policy")
        needed = "FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH" if mismatch else "FS_GROUP_CHANGE_POLICY_ALWAYS"
        if not self.has(needed) and not self.on("fs-group-mismatch-unoffered" if mismatch else "fs-group-unoffered"):
            raise Error(Code.FAILED_PRECONDITION, "the policy is not offered")

    def check_device(self, request):
        device = request.host_volume_id
        if not device and self.on("accepts-empty-fields"):
            return
        if not device.startswith("/") or len(device) > 4095 or not printable(device):
            raise Error(Code.INVALID_ARGUMENT, "this is no device")
        if not os.path.exists(device):
            raise Error(Code.INTERNAL if self.on("missing-device") else Code.NOT_FOUND, "there is no such device")
        if not stat.S_ISBLK(os.stat(device).st_mode):
            raise Error(Code.INVALID_ARGUMENT, "this is no block device")

    # -- volumes

    def publish(self, sandbox, request):
        target = request.host_target_path
        known = sandbox.volumes.get(target)
        if known is not None:
            if known.key() == Volume(request, None).key():
                if self.on("publish-twice-fails"):
                    raise Error(Code.ALREADY_EXISTS, "it is published")
                if self.on("publish-twice-mounts-twice"):
                    run("mount", "--bind", known.folder, known.folder)
                return
            if self.on("publish-ignores-conflict"):
                return
            raise Error(Code.FAILED_PRECONDITION, "another volume is at the target")
        if self.on("target-stays-taken") and sandbox.taken.setdefault(target, request.mount_options[:]) != request.mount_options[:]:
            raise Error(Code.FAILED_PRECONDITION, "another volume was at the target")
        self.mount(sandbox, target, request)

    def mount(self, sandbox, target, request):
        if not request.host_volume_id or request.file_system not in self.file_systems:
            return
        folder = self.folder / "sandboxes" / f"{sandbox.name}-{uuid.uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        if self.on("publishes-nothing"):
            sandbox.volumes[target] = Volume(request, folder)
            return
        options = list(request.mount_options)
        readonly = self.is_readonly(options)
        if self.on("ignores-readonly"):
            options = [option for option in options if option != "ro"]
        if self.on("ignores-option-order"):
            options.sort(key=lambda option: option == "ro")
        if self.on("ignores-options"):
            options = [option for option in options if option in ("ro", "rw")]
        if self.on("writes-to-readonly"):
            options = [option for option in options if option != "ro"] + ["rw"]
        if self.on("accepts-control-characters") or self.on("accepts-too-much") or self.on("ignores-unknown-option"):
            options = [option for option in options if option in ("ro", "rw", "noatime", "noexec")][:4]
        flags = ["-o", ",".join(options)] if options else []
        if self.on("formats-empty-device") and run("blkid", "-p", request.host_volume_id).returncode != 0:
            run(*MAKE[request.file_system], request.host_volume_id)
        ran = run("mount", "-t", request.file_system, *flags, request.host_volume_id, folder)
        if ran.returncode != 0:
            folder.rmdir()
            raise Error(Code.INVALID_ARGUMENT, f"mount: {ran.stderr.strip()}")
        if self.on("writes-to-readonly") and readonly:
            run("mount", "-o", "remount,ro,bind", folder)
        sandbox.volumes[target] = Volume(request, folder)
        if request.HasField("fsgroup_gid"):
            self.give_to_group(request, folder, readonly)
        if self.on("mounts-on-the-host"):
            self.on_host("mount", request.host_volume_id, target)

    @staticmethod
    def is_readonly(options):
        return [option for option in options if option in ("ro", "rw")][-1:] == ["ro"]

    def give_to_group(self, request, root, readonly):
        gid = request.fsgroup_gid
        if readonly:
            if not self.on("fs-group-of-readonly"):
                return
            run("mount", "-o", "remount,rw", root)
        if gid < 0:
            return
        found = os.stat(root)
        mismatch = request.fsgroup_policy == "OnRootMismatch"
        fits = found.st_gid == gid and (found.st_mode & FOLDER_MODE == FOLDER_MODE or self.on("fs-group-mismatch-ignored"))
        if fits and (mismatch and not self.on("fs-group-mismatch-walks") or not mismatch and self.on("fs-group-always-skips")):
            return
        paths = [pathlib.Path(root)]
        if not self.on("fs-group-ignored"):
            paths += pathlib.Path(root).rglob("*")
        for path in paths:
            os.lchown(path, -1, gid)
            if not path.is_symlink():
                os.chmod(path, stat.S_IMODE(path.stat().st_mode) | (FOLDER_MODE if path.is_dir() else 0o660))

    def unpublish(self, sandbox, request):
        volume = sandbox.volumes.get(request.host_target_path)
        if volume is None:
            if self.on("unpublish-twice-fails"):
                raise Error(Code.NOT_FOUND, "nothing is published there")
            return
        if volume.request.host_volume_id != request.host_volume_id and not self.on("unpublish-ignores-source"):
            raise Error(Code.FAILED_PRECONDITION, "another volume is at the target")
        if not self.on("unpublish-keeps-device"):
            self.unmount(volume.folder)
            if self.on("mounts-on-the-host"):
                self.on_host("umount", request.host_target_path)
            del sandbox.volumes[request.host_target_path]

    @staticmethod
    def unmount(folder):
        # A mount over the mount, which a switch made, stays.
        run("umount", folder)
        with contextlib.suppress(OSError):
            folder.rmdir()

    # -- volumes of pods

    def publish_for_pod(self, request, pod):
        target = request.host_target_path
        if not self.has("POD_VOLUMES"):
            return crust.RuntimePublishVolumeResponse()
        with self.lock:
            self.check(request, pod)
            known = self.pod_volumes.get((pod, target))
            if known is not None and known.key() != Volume(request, None).key():
                raise Error(Code.FAILED_PRECONDITION, "another volume is at the target")
            if not self.on("pod-without-placeholder") and (known is None or self.on("pod-publish-not-idempotent")):
                self.on_host("mount", "-t", "tmpfs", "placeholder", target)
            self.pod_volumes[pod, target] = Volume(request, None)
            for sandbox in self.sandboxes.values():
                if sandbox.pod == pod and target not in sandbox.volumes:
                    self.mount(sandbox, target, request)
        return crust.RuntimePublishVolumeResponse()

    def unpublish_for_pod(self, request, pod):
        target = request.host_target_path
        with self.lock:
            known = self.pod_volumes.get((pod, target))
            if known is None:
                return
            if known.request.host_volume_id != request.host_volume_id:
                raise Error(Code.FAILED_PRECONDITION, "another volume is at the target")
            for sandbox in self.sandboxes.values():
                if sandbox.pod == pod:
                    self.unpublish(sandbox, request)
            del self.pod_volumes[pod, target]
            if not self.on("pod-keeps-placeholder"):
                self.on_host("umount", "--lazy", target)

    def on_host(self, *command):
        """Runs a command in the host's mount namespace."""
        return run("nsenter", f"--mount=/proc/{self.host_pid}/ns/mnt", *command)


def answer(double, method, request, context):
    try:
        return getattr(double, method)(request, context)
    except Error as error:
        context.abort(error.code, "" if double.on("error-without-message") else str(error))


def serve_control(double, path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        while True:
            peer, _ = listener.accept()
            with peer, peer.makefile("rw") as stream:
                try:
                    reply = double.control(json.loads(stream.readline()))
                except Error as error:
                    reply = {"error": str(error)}
                stream.write(json.dumps(reply) + "\n")
    threading.Thread(target=serve, daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--host-pid", type=int)
    parser.add_argument("--capabilities", default=",".join(ALL))
    parser.add_argument("--file-systems", default="ext4,xfs")
    options = parser.parse_args()
    if options.list:
        for name, wrong in RULES.items():
            print(f"{name}\t{wrong}")
        return
    double = Double(options)
    service = crust.DESCRIPTOR.services_by_name["RuntimeAssistedStorageManagement"]
    methods = {method.name: grpc.unary_unary_rpc_method_handler(
        lambda request, context, name=method.name: answer(double, name, request, context),
        getattr(crust, f"{method.name}Request").FromString, lambda message: message.SerializeToString())
        for method in service.methods}
    handler = grpc.method_handlers_generic_handler(service.full_name, methods)
    server = grpc.server(futures.ThreadPoolExecutor(16), handlers=[handler])
    serve_control(double, f"{options.folder}/control.sock")
    server.add_insecure_port(f"unix:{options.folder}/crust.sock")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
