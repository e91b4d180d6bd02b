"""Makes the objects of a run, under names of its own, and removes them again."""
import itertools
import random
import string
import time

# This name is unique, because several runs may test one API at a time.
RUN = "conf-" + "".join(random.choices(string.ascii_lowercase + string.digits, k=6))
SERIAL = itertools.count(1)


class Maker:
    """Creates objects under names of this run and deletes them again, the last one first."""

    def __init__(self, api, ns=None):
        self.api = api
        self.ns = ns
        self.paths = []

    def name(self, word="object"):
        return f"{RUN}-{word}-{next(SERIAL)}"

    def clean_later(self, path):
        if path not in self.paths:
            self.paths.append(path)

    def new(self, kind, word=None, **fields):
        return kind.new(self.name(word or kind.singular), self.ns, **fields)

    def path(self, kind, item):
        return kind.path(item["metadata"].get("namespace"), item["metadata"]["name"])

    def __call__(self, kind, item=None, **fields):
        """POSTs `item`, or a minimal object with `fields` replaced, and gives the object that the server returned."""
        if item is None:
            item = self.new(kind, **fields)
        reply = self.api.post(kind.path(self.ns), item)
        assert reply.code == 201, reply
        made = reply.json
        self.clean_later(self.path(kind, made))
        return made

    def remove(self, path, seconds=30):
        """Deletes what is at `path` at once, finalizers or not, and waits until it is gone."""
        deadline = time.monotonic() + seconds
        while True:
            reply = self.api.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            if reply.code in (404, 405):
                return
            read = self.api.get(path)
            if read.code == 404:
                return
            if read.code == 200 and read.json["metadata"].get("finalizers"):
                self.api.patch(path, {"metadata": {"finalizers": None}})
            assert time.monotonic() < deadline, f"{path} stays: {self.api.get(path)}"
            time.sleep(0.05)

    def clean(self):
        left = []
        for path in reversed(self.paths):
            try:
                self.remove(path)
            except AssertionError as failure:
                left.append(str(failure))
        assert not left, "left behind: " + "; ".join(left)
