"""Volumes of a storage cluster, as the operator makes, copies, grows and deletes them; and the cluster's own end."""
import shutil

from lib import block_agent, objects


def grow(s, claim, size):
    s.done(f"claim {claim} to ask for more", lambda: s.api.patch(
        "persistentvolumeclaims", claim, {"spec": {"resources": {"requests": {"storage": size}}}}))
    s.step(f"the volume of claim {claim} to have grown",
           lambda: s.volume_of(claim)["spec"]["capacity"]["storage"] == size)


def images_in(folder):
    return sorted(path.name for path in folder.glob("pvc-*"))


def cluster(s):
    """Two claims, of which one is a copy of the other, grow and go with their images; then the cluster goes."""
    folder = s.berth.folder / "cluster"
    folder.mkdir(exist_ok=True)
    s.create(block_agent.storage_cluster("main", folder))
    s.create({**objects.storage_class("cluster", provisioner="block.berth.dev", binding="Immediate"),
              "parameters": {"cluster": "main"}})
    s.create(objects.claim("data", "64Mi", "cluster"))
    first = s.volume_of("data")["metadata"]["name"]
    s.step("its image to be there", lambda: (folder / first).stat().st_size == 64 << 20)
    s.create(objects.claim("copy", "64Mi", "cluster", dataSource={"kind": "PersistentVolumeClaim", "name": "data"}))
    second = s.volume_of("copy")["metadata"]["name"]
    grow(s, "data", "96Mi")
    assert (folder / first).stat().st_size == 96 << 20
    assert images_in(folder) == sorted([first, second])
    s.gone("persistentvolumeclaims", "data")
    s.step("its volume to be gone", lambda: not s.api.get("persistentvolumes", first))
    assert images_in(folder) == [second]
    s.gone("persistentvolumeclaims", "copy")
    s.nothing_left()
    assert images_in(folder) == []
    s.gone("storageclusters", "main")
    s.gone("storageclasses", "cluster")
    shutil.rmtree(folder)
