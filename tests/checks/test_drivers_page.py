"""The section of docs/compatibility.md about drivers that others wrote."""
import pytest
from lib.drivers import page

pytestmark = pytest.mark.checks

BEFORE = "# Berth beside the real programs\n\n## Requests\n\n| a | b |\n| --- | --- |\n| x | y |\n"


def rows(text):
    return [line for line in page.section_of(text).splitlines() if line.startswith("| ")][2:]


def test_a_run_adds_its_section_and_leaves_the_rest():
    text = page.with_rows(BEFORE, {"one": ("1.0", {"claim; deletion": "passed", "growth": "failed"}, "")})
    assert text.startswith(BEFORE)
    assert rows(text) == ["| one | 1.0 | claim; deletion<br>growth (failed) | nothing that Berth has to do differently |"]


def test_a_case_that_runs_alone_leaves_the_other_cases():
    text = page.with_rows(BEFORE, {"one": ("1.0", {"claim": "passed", "growth": "failed"}, "a"), "two": ("2", {"claim": "passed"}, "")})
    text = page.with_rows(text, {"one": ("1.0", {"growth": "passed"}, "b")})
    assert rows(text) == ["| one | 1.0 | claim<br>growth | b |", "| two | 2 | claim | nothing that Berth has to do differently |"]
    assert text.startswith(BEFORE) and text.count(page.HEADING) == 1


def test_another_version_of_a_driver_begins_anew():
    text = page.with_rows(BEFORE, {"one": ("1.0", {"claim": "passed"}, "")})
    assert rows(page.with_rows(text, {"one": ("1.1", {"growth": "passed"}, "")})) == [
        "| one | 1.1 | growth | nothing that Berth has to do differently |"]
