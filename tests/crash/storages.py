"""The storage systems whose volumes flows use: RBD in one Ceph cluster that all places share, and an iSCSI target of
each place. Both have a further node, whose client writes until the storage refuses it."""
import base64
import os
import pathlib
import shutil
import tempfile

from lib import iscsi, rbd, tgt
from lib.export import Export
from lib.standalone import Failure
from lib.storage_site import NAMESPACE

OTHER = "node-x"
MIB = 1 << 20
SECRET = "storage"
# Made before the workers are forked, because a cluster takes seconds to start.
CEPH = None


class OtherNode(Export):
    """The process that serves an image on another node, as that node's I/O proxy starts it."""

    def __init__(self, program, settings):
        super().__init__(pathlib.Path(tempfile.mkdtemp(prefix="bs-", dir="/run")) / "other", program,
                         settings | {"node": OTHER, "readOnly": False, "shared": False})
        self.begin()

    def write(self):
        """Writes the last block of the image, where the file system has no data. OSError: it is refused."""
        self.write_block(-1, b"x")

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder.parent)


class Storage:
    """What a place has of a storage. It is used by the process that moved into the place's network."""

    def __init__(self):
        self.others = []

    def secret(self):
        """Gives the data of its Secret."""
        raise NotImplementedError

    def backend(self):
        """Gives the back end of a StorageCluster."""
        raise NotImplementedError

    def begin(self):
        """Makes it as new for a flow."""

    def grow(self, size):
        """Does what an administrator has to do before an image can have `size` bytes."""

    def settings_of_other(self, image):
        """Gives the program, and the settings with which it serves the image on another node."""
        raise NotImplementedError

    def left(self):
        """Gives what is left in the storage, as lines."""
        raise NotImplementedError

    def fenced(self):
        """Gives the fences that stand, by node, if the storage can tell them."""
        return {}

    def may_be_fenced(self, node):
        """Whether the node may be fenced, as far as the storage can tell."""
        return True

    def serve_elsewhere(self, image):
        """Gives the other node's process, once it serves the image; False: it does not yet."""
        if self.others and self.others[-1].process.poll() is not None:
            self.others.pop().remove()
        if not self.others:
            self.others.append(OtherNode(*self.settings_of_other(image)))
        return self.others[-1].serves() and self.others[-1]

    def end(self):
        """Ends the clients that a flow began."""
        while self.others:
            self.others.pop().remove()

    def stop(self):
        self.end()

    def secret_ref(self):
        return {"name": SECRET, "namespace": NAMESPACE}


class Rbd(Storage):
    size, grown = 24 * MIB, 40 * MIB
    copies = True

    def __init__(self, folder):
        super().__init__()
        self.way = CEPH.connect_network()
        self.pool_namespace = f"{folder.name}-{self.way.link}"
        CEPH.rbd(f"rbd.RBD().namespace_create(io, '{self.pool_namespace}')")
        self.cluster = CEPH.settings(namespace=self.pool_namespace)
        self.were_fenced = set()  # addresses

    def secret(self):
        return {"key": base64.b64encode(self.cluster["key"].encode()).decode()}

    def backend(self):
        return {"rbd": {"monitors": [CEPH.monitor], "pool": rbd.POOL, "namespace": self.pool_namespace,
                        "user": self.cluster["user"], "access": "Proxy", "secretRef": self.secret_ref()}}

    def settings_of_other(self, image):
        return rbd.PROGRAM, {"cluster": self.cluster, "image": image}

    def fenced(self):
        try:
            nodes = CEPH.call("fenced", node="tester", cluster=self.cluster)["nodes"]
        except rbd.CallError as error:
            raise Failure(str(error)) from None
        for addresses in nodes.values():
            self.were_fenced.update(addresses)
        return nodes

    def may_be_fenced(self, node):
        return node in self.fenced()

    def left(self):
        """Also what Berth has on record of clients, and fenced addresses that are still on the blocklist. The entry of a
        call that died with a lock stays there, because the call may only be frozen."""
        found = CEPH.rbd(f"""
io.set_namespace('{self.pool_namespace}')
for name in rbd.RBD().list(io):
    print('image', name)
for one in rbd.RBD().trash_list(io):
    print('in the trash:', one['name'])
for one in ('berth.clients', 'berth.fenced', 'berth.images', 'berth.trash'):
    try:
        with rados.ReadOpCtx() as op:
            values, _ = io.get_omap_vals(op, '', '', 1000)
            io.operate_read_op(op, one)
            for key, value in values:
                print(one, key, value)
    except rados.ObjectNotFound:
        pass""").splitlines()
        return found + [f"blocklist {address}" for address in sorted(self.were_fenced & set(CEPH.blocklist()))]

    def stop(self):
        super().stop()
        self.way.delete()


class Iscsi(Storage):
    size, grown = 24 * MIB, 40 * MIB
    copies = False
    user, password = "berth", "a-secret-of-some-length"
    lun = 1

    def __init__(self, folder):
        super().__init__()
        self.chap = {"chapUser": self.user, "chapPassword": self.password}
        self.target = tgt.Tgt(folder / "t")
        self.target.add(self.lun, size=self.size)
        self.target.start()
        self.target.require_chap(self.user, self.password)
        self.identity = self._unit()["identity"]

    def _call(self, name, owner="nobody", **members):
        answer = iscsi.call(name, self.target.portal, lun=self.lun, node="tester", cluster=self.chap | {"owner": owner},
                            **members)
        if "error" in answer:
            raise Failure(str(answer["error"]))
        return answer

    def _unit(self, owner="nobody"):
        return self._call("list", owner)["luns"][0]

    def secret(self):
        return {name: base64.b64encode(value.encode()).decode()
                for name, value in {"username": self.user, "password": self.password}.items()}

    def backend(self):
        return {"iscsi": {"portals": [self.target.portal], "target": tgt.TARGET, "luns": {"allow": [self.identity]},
                          "chapSecretRef": self.secret_ref()}}

    def begin(self):
        """Gives the LUN its first size again."""
        if self.target.file(self.lun).stat().st_size == self.size:
            return
        self.target.kill()
        os.truncate(self.target.file(self.lun), self.size)
        self.target.start()

    def grow(self, size):
        if self.target.file(self.lun).stat().st_size < size:
            self.target.grow(self.lun, size)

    def settings_of_other(self, image):
        owner = image.rpartition(".")[0]
        ticket = self._call("holders", owner)["ticket"]
        return iscsi.PROGRAM, iscsi.request(self.target.portal, node=OTHER, cluster=self.chap | {"owner": owner},
                                            lun=self.lun, identity=self.identity, ticket=ticket, image=image)

    def left(self):
        unit = self._unit()
        holders = self._call("holders", identity=self.identity)["holders"]
        return ([f"reserved: {unit['reserved']}"] if unit["reserved"] else []) + [f"holder {one}" for one in holders] \
            + ([] if unit["blank"] else ["data"])

    def stop(self):
        super().stop()
        self.target.stop()


KINDS = {"rbd": Rbd, "iscsi": Iscsi}
