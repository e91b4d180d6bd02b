"""Fault points that no flow passes, or not each time, with the reason. A point that is neither passed nor named here
fails the walk: it needs a flow, or a reason here."""
import fnmatch

REASONS = {
    "kube.*": "each kind and verb has a point; these requests nobody makes, or only commands, DaemonSets, namespaces and "
              "the garbage collector, which keep nothing but what the API keeps",
    "apiserver.tokens.*": "a command of its own, 'berth token', which is given again",
    "apiserver.revocations.*": "a command of its own, 'berth certificate', which is given again",
    "apiserver.revocation_record.*": "a command of its own, 'berth certificate', which is given again",
    "flex.isattached.*": "looks, now and then",
    "flex.getvolumename.after": "where a driver has an answer, of which nobody makes anything",
    "disk.mark.*": "disks of a network, which need a kernel's client; src/volume/remote/rbd_test.cc cuts a map short",
    "block.nbd_*": "the kernel's NBD client, which not every kernel has; src/block/nbd/nbd_vm_test.cc takes them in a machine "
                   "of its own",
    "blockoperator.fence.*": "only where the storage fences: test_storage_walk.py",
    "blockoperator.unfence.*": "only where the storage fences: test_storage_walk.py",
    "blockagent.storage_fence.*": "only where the storage fences: test_storage_walk.py",
    "blockagent.note.*": "only where the storage keeps notes with images: test_storage_walk.py",
    "block.proxy_*": "the I/O proxy's own process and daemons: test_storage_walk.py, src/block/proxy/exports_crash_root_test.cc",
    "cli.*": "shims come and go by a command of its own, which is given again; src/cli/plugins/shims_test.cc cuts it short",
    "standalone.block_agent_kubeconfig.*": "only where `berth up` makes the pods of block agents; each start writes the file again",
    "store.restore.*": "where no Berth runs; src/store/backup_test.cc crashes it",
    "store.compact.*": "comes with the hours, in one transaction of SQLite",
    "csidriver.stage.prepared": "where the record of a staged volume was lost; what was done is done once more",
    "rpc.cri.*": "looks, cleans up after a container, or streams for a person: no volume hangs on it",
    "crust.plan.*": "the volumes of a pod, under a kubelet alone; src/crust/crash_root_test.cc crashes at each",
    "crust.pod_record.*": "the volumes of a pod, under a kubelet alone; src/crust/crash_root_test.cc crashes at each",
    "crust.kata_*": "where Kata runs the sandboxes; src/crust/kata/kata_crash_root_test.cc crashes at each",
    "crustproxy.*": "under a kubelet alone; src/crustproxy/volume_faults_root_test.cc cuts it short at each",
    "crust.machine*": "sandboxes that are virtual machines; src/crust/machine/vm_crash_root_test.cc and machine_root_test.cc crash "
                      "at each",
    "crust.guest.shared": "sandboxes that are virtual machines; src/crust/machine/vm_crash_root_test.cc crashes there",
    "crust.guest_image.*": "sandboxes that are virtual machines; each start of the handler writes the file again",
    "crust.utility.*": "the mount utility of a share; src/crust/utility_mount_root_test.cc cuts it short",
    "rpc.crust.RuntimeGetVolumeStats.*": "looks, once a minute or when somebody asks",
    "rpc.csi.ListVolumes.*": "looks, once a minute",
    "rpc.csi.NodeGetVolumeStats.*": "looks, once a minute or when somebody asks",
    "rpc.csi.GetSnapshot.*": "nobody calls it",
    "rpc.csi.GroupController*": "nobody calls it",
    "rpc.csi.GetVolumeGroupSnapshot.*": "looks, at groups that a person imports; those of the shipped driver are ready at once",
    "rpc.csi.ControllerGetVolume.*": "nobody calls it",
    "rpc.csi.ValidateVolumeCapabilities.*": "nobody calls it",
}
NONE = "none"

# A flow may or may not pass these points, so a point that was passed once may be missed the next time.
BY_CHANCE = {
    "kube.patch.csistoragecapacities.*": "what is free on the disk of the pool, which others use, too",
    "kube.patch.events.*": "counts an event again, if what it tells of was tried more than once",
}


def is_by_chance(name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in BY_CHANCE)


def by_pattern(points):
    """Sorts the points by the pattern that says why they are not walked; points without a pattern are under NONE."""
    sorted_out = {}
    for point in points:
        pattern = next((pattern for pattern in REASONS if fnmatch.fnmatchcase(point, pattern)), NONE)
        sorted_out.setdefault(pattern, []).append(point)
    return sorted_out
