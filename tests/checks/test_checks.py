"""What `./dev check` refuses: each tool runs in a small tree that keeps its rule, and in one that breaks it."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.checks]

COPIED = "\n".join(f"  volume.step_{number}();" for number in range(6))


def write(tree, files):
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def check(tmp_path):
    """A function that runs tools/check_NAME in a tree of `files` and returns its exit code and output."""

    def run(name, files):
        write(tmp_path, {"cmake/dependencies.cmake": "", "README.md": ""} | files)
        (tmp_path / "tools").mkdir(exist_ok=True)
        for tool in (f"check_{name}", "product_files.py"):
            shutil.copy(ROOT / "tools" / tool, tmp_path / "tools" / tool)
        subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "tools" / f"check_{name}"], cwd=tmp_path, capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


def functions(*names):
    """Files of src/base, each with a function of the same six lines."""
    return {f"src/base/{name}.cc": f"void {name}() {{\n{COPIED}\n}}\n" for name in names}


def files_of_a_folder(count, name="part_{}.h"):
    return {f"src/base/{name.format(number)}": "" for number in range(count)}


DIAGRAM = """
//   claimed ──▶ bound ──▶ released
//      │                     ▲
//      └─────────────────────┘
"""
REFLOWED = """
//   claimed ──▶ bound ──▶
//   released
//      │                     ▲
//      └─────────────────────┘
"""
LOOP = """
//   [taken] ── ready ──▶ [done]
//    ▲  │ not ready yet
//    └──┘
"""
LOOP_WITHOUT_HEAD = """
//   [taken] ── ready ──▶ [done]
//    └──┘ not ready yet
"""
LINKS_FMT = {"CMakeLists.txt": "", "src/CMakeLists.txt": "berth_room(base LIBRARIES fmt::fmt)\n",
             "cmake/dependencies.cmake": "find_package(fmt REQUIRED)\n"}

KEPT = {
    "a folder of forty product files, and tests beside them":
        ("sizes", files_of_a_folder(40) | files_of_a_folder(10, "part_{}_test.cc")),
    "a product file of 500 lines": ("sizes", {"src/base/long.cc": "int a;\n" * 500}),
    "two copies of six lines": ("copies", functions("one", "two")),
    "a third copy in a test": ("copies", functions("one", "two", "three_test")),
    "a library that a room includes": ("libraries", LINKS_FMT | {"src/base/text.h": "#include <fmt/format.h>\n"}),
    "a library that only an inner folder includes":
        ("libraries", LINKS_FMT | {"src/CMakeLists.txt": "berth_room(base FOLDERS files DEPS LIBS fmt::fmt)\n",
                                   "src/base/files/text.h": "#include <fmt/format.h>\n"}),
    "a library that a test links for itself":
        ("libraries", LINKS_FMT | {"src/CMakeLists.txt": "target_link_libraries(berth_base_test PRIVATE fmt::fmt)\n",
                                   "src/base/text_test.cc": "#include <fmt/format.h>\n"}),
    "a diagram as it was drawn": ("diagrams", {"src/base/states.h": DIAGRAM}),
    "a loop with an arrow head": ("diagrams", {"src/base/states.h": LOOP}),
    "a link to a file and to a heading":
        ("links", {"README.md": "# To begin\n[a](docs/a.md) [b](#to-begin) `src/base/a.h`\n", "docs/a.md": "",
                   "src/base/a.h": ""}),
    "an include of a lower floor": ("layers", {"src/kube/a.h": '#include "base/status.h"\n', "src/base/status.h": ""}),
    "an include of a lower inner folder": ("layers", {"src/node/pods/a.h": '#include "node/volumes/b.h"\n'}),
    "a child that owns what it touches":
        ("children", {"src/platform/a.cc": "auto r = RunInChild(seconds, [path = std::string(p)] { Stat(path); });\n"}),
}

BROKEN = {
    "a folder of 41 product files": ("sizes", files_of_a_folder(41), "src/base: 41 product files"),
    "a product file of 501 lines": ("sizes", {"src/base/long.cc": "int a;\n" * 501}, "src/base/long.cc: 501 lines"),
    "three copies of six lines": ("copies", functions("one", "two", "three"), "3 copies of 6 lines"),
    "a library that nothing includes":
        ("libraries", LINKS_FMT | {"src/base/text.h": "#include <string>\n"}, "links fmt::fmt, and no product file of src/base"),
    "a library that only a test of the room includes":
        ("libraries", LINKS_FMT | {"src/base/text_test.cc": "#include <fmt/format.h>\n"},
         "no product file of src/base includes it: take it out there"),
    "a library that only a room in a folder below includes":
        ("libraries", LINKS_FMT | {"src/base/ipc/text.h": "#include <fmt/format.h>\n"},
         "no product file of src/base includes it: take it out there"),
    "a library of which the check does not know the headers":
        ("libraries", {"CMakeLists.txt": "", "src/CMakeLists.txt": "berth_room(base LIBS other::other)\n"},
         "add it there, with the way its headers begin"),
    "a library without a target":
        ("libraries", {"CMakeLists.txt": "", "src/CMakeLists.txt": "target_link_libraries(berth_base PRIVATE mount)\n"},
         "links 'mount' by its bare name"),
    "a package that nothing links":
        ("libraries", {"cmake/dependencies.cmake": "find_package(fmt REQUIRED)\n"}, "nothing links 'fmt'"),
    "a loop without an arrow head": ("diagrams", {"src/base/states.h": LOOP_WITHOUT_HEAD}, "src/base/states.h:3"),
    "a diagram that was reflowed": ("diagrams", {"src/base/states.h": REFLOWED}, "src/base/states.h:2"),
    "a link that leads nowhere": ("links", {"README.md": "[a](docs/a.md)\n"}, "README.md:1: the link 'docs/a.md'"),
    "a link by reference that leads nowhere":
        ("links", {"README.md": "[a][1]\n\n[1]: docs/a.md\n"}, "README.md:3: the link 'docs/a.md'"),
    "a link with a title that leads nowhere":
        ("links", {"README.md": '[a](docs/a.md "A")\n'}, "README.md:1: the link 'docs/a.md'"),
    "a link in HTML that leads nowhere":
        ("links", {"README.md": '<img src="a.svg">\n'}, "README.md:1: the link 'a.svg'"),
    "a dead link in any document of the tree":
        ("links", {"bench/notes.md": "[a](b.md)\n"}, "bench/notes.md:1: the link 'b.md'"),
    "a link to no heading": ("links", {"README.md": "# One\n[a](#two)\n"}, "names no heading"),
    "a path that does not exist": ("links", {"README.md": "`src/base/b.h`\n", "src/base/a.h": ""}, "does not exist"),
    "an include of a higher floor":
        ("layers", {"src/base/a.h": '#include "kube/client.h"\n', "src/kube/client.h": ""}, "move what both need to a lower floor"),
    "an include of a neighbour":
        ("layers", {"src/volume/csi/a.h": '#include "volume/flex/b.h"\n'}, "move what both need to the root of 'volume'"),
    "an include of what is no room":
        ("layers", {"src/base/a.h": '#include "other/b.h"\n'}, "'other' is no room: add it to FLOORS"),
    "a file outside the rooms": ("layers", {"src/other/a.h": ""}, "src/other/a.h: its folder is no room: move it into one"),
    "generated RPC code on the lowest floor":
        ("layers", {"src/base/a.h": '#include "proto/csi.pb.h"\n'}, "move the file to src/rpc"),
    "an include of a higher inner folder":
        ("layers", {"src/node/volumes/a.h": '#include "node/pods/b.h"\n'}, "is above 'node/volumes'"),
    "a child that borrows what it touches":
        ("children", {"src/platform/a.cc": "auto r = RunInChild(seconds, [&path] { Stat(path); });\n"}, "&path"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_tree_that_keeps_a_rule_passes(check, case):
    name, files = KEPT[case]
    code, output = check(name, files)
    assert code == 0, output


@pytest.mark.parametrize("case", BROKEN)
def test_a_tree_that_breaks_a_rule_is_refused_with_what_to_do(check, case):
    name, files, told = BROKEN[case]
    code, output = check(name, files)
    assert code == 1 and told in output, output
