"""The messages of proto/csi.proto as `csi`, and those of proto/crust.proto as `crust`."""
import importlib
import pathlib
import subprocess
import sys
import tempfile

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
NAMES = ("csi", "crust")


def _generate():
    """Generates the messages each time, because generated code is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", *(f"{name}.proto" for name in NAMES)],
                       check=True)
        sys.path.insert(0, folder)
        try:
            return [importlib.import_module(f"{name}_pb2") for name in NAMES]
        finally:
            sys.path.remove(folder)


csi, crust = _generate()
