"""The messages of proto/csi.proto, as `csi`."""
import importlib
import pathlib
import subprocess
import sys
import tempfile

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def _generate():
    """Generates the messages each time, because generated code is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", "csi.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("csi_pb2")
        finally:
            sys.path.remove(folder)


csi = sys.modules.get("csi_pb2") or _generate()
