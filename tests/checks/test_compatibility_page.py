"""The page of results: a run writes it whole; a test that is run again alone, and those of Berth's own API, change their cells."""
import types

import pytest
from lib.kubernetes import compatibility

pytestmark = [pytest.mark.checks]
CASE = "tests/kubernetes/test_x.py::test_it_works"


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(compatibility, "PAGE", str(tmp_path / "page.md"))
    monkeypatch.setattr(compatibility, "_titles", {})

    def run(*outcomes, alone=False):
        monkeypatch.setattr(compatibility, "ALONE", alone)
        monkeypatch.setattr(compatibility, "_outcomes", {})
        for name, outcome in outcomes:
            compatibility.note_outcome(types.SimpleNamespace(
                nodeid=f"{CASE}{name}", when="call", passed=outcome == "passed", outcome=outcome,
                user_properties=[("title", "It works")]))
        compatibility.write_page()
        return [line for line in (tmp_path / "page.md").read_text().splitlines() if line.startswith("| x ")]

    return run


def test_a_case_has_a_row_with_a_cell_for_each_side(page):
    rows = page(("[go]", "passed"), ("[berth]", "failed"), ("_too[berth-killed]", "passed"))
    assert rows == ["| x | It works | passed | failed |  |", "| x | It works (killed) |  | passed |  |"]


def test_a_test_that_passes_alone_changes_its_cell(page):
    page(("[go]", "passed"), ("[berth]", "failed"), ("_too[berth-killed]", "passed"))
    rows = page(("[berth]", "passed"), alone=True)
    assert rows == ["| x | It works | passed | passed |  |", "| x | It works (killed) |  | passed |  |"]


def test_a_new_case_that_runs_alone_gets_a_row(page):
    page(("[go]", "passed"), ("[berth]", "passed"))
    rows = page(("_now[go]", "passed"), ("_now[berth-killed]", "passed"), alone=True)
    assert rows == ["| x | It works | passed | passed |  |", "| x | It works (killed) |  | passed |  |"]


def test_those_of_berths_own_api_fill_their_column(page):
    page(("[go]", "passed"), ("[berth]", "passed"))
    assert page(("[own-api]", "passed")) == ["| x | It works | passed | passed | passed |"]
