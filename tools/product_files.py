"""Which files of src/ are the product: those that are no test, and no fake or fixture of one."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_PRODUCT = re.compile(r"_test\.cc$|^fake_|_fixture\.|^test_")


def product_files():
    """Their paths, sorted."""
    return [path for path in sorted((ROOT / "src").rglob("*"))
            if path.suffix in (".h", ".cc") and not NO_PRODUCT.search(path.name)]
