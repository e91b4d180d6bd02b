"""What run_tests runs and reads: the C++ test programs by ctest, the tests of tests/ by pytest, each test as one Case."""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
PROGRAM_REPORTS = BUILD / "gtest"  # PROGRAM.xml of each C++ test program
ALONE_SECONDS = 900  # a test that is run again by itself; the crash walk is the longest
WHOLE_OUTPUT = 100_000_000  # bytes of a program's output that ctest keeps


@dataclasses.dataclass
class Case:
    """One test of one run."""

    name: str  # a C++ test's is "PROGRAM SUITE.TEST", or "PROGRAM" if the program itself failed; pytest's its node id
    runner: str  # "ctest" or "pytest"
    outcome: str  # "passed", "failed" or "skipped"
    seconds: float
    output: str = ""  # of a failure


def outcome_of(element):
    """(outcome, what a failure says) of a <testcase>; one that erred has failed, too."""
    trouble = element.findall("failure") + element.findall("error")
    if trouble:
        said = [each.text or each.get("message") or "" for each in trouble]
        return "failed", "\n".join(said + [element.findtext("system-out") or ""])
    skipped = element.find("skipped") is not None or element.get("status") in ("notrun", "disabled")
    return ("skipped" if skipped else "passed"), ""


def read_cases(report):
    """(element, outcome, output, seconds) of each test of a JUnit file."""
    for element in xml.parse(report).getroot().iter("testcase"):
        yield element, *outcome_of(element), float(element.get("time") or 0)


# ---- C++ ----

def ctest_command(report, label=None, program=None):
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(BUILD), "-j3", "--no-tests=error", "--output-junit", str(report),
               "--test-output-size-failed", str(WHOLE_OUTPUT)]
    if label:
        command += ["-L", f"^{label}$"]
    if program:
        command += ["-R", f"^{re.escape(program)}$"]
    return command


def output_of_test(name, output):
    """What a program printed while it ran the test `name`."""
    began = output.find(f"[ RUN      ] {name}\n")
    if began < 0:
        return ""
    ended = output.find(f"[  FAILED  ] {name}", began)
    return output[began:ended if ended > 0 else None]


def read_program(program, outcome, output, seconds):
    """The cases of a C++ test program, which ended with `outcome` and printed `output`."""
    report = PROGRAM_REPORTS / f"{program}.xml"
    cases = []
    if report.exists():
        for element, test_outcome, said, test_seconds in read_cases(report):
            name = f"{element.get('classname')}.{element.get('name')}"
            if test_outcome == "failed":
                said = output_of_test(name, output) or said
            cases.append(Case(f"{program} {name}", "ctest", test_outcome, test_seconds, said))
    if outcome == "failed" and not any(case.outcome == "failed" for case in cases):
        # It crashed, hung, or failed outside of its tests: the last test that it began tells most.
        cases.append(Case(program, "ctest", "failed", seconds, output[max(output.rfind("[ RUN "), 0):]))
    return cases


def run_ctest(label=None, match=None, program=None):
    """The cases of the C++ test programs: of all, of those with `label`, or of one."""
    PROGRAM_REPORTS.mkdir(exist_ok=True)
    for earlier in PROGRAM_REPORTS.iterdir():
        earlier.unlink()
    environment = dict(os.environ, GTEST_OUTPUT=f"xml:{PROGRAM_REPORTS}/")
    if match:
        environment["GTEST_FILTER"] = f"*{match}*"
    report = BUILD / "ctest.xml"
    command = ctest_command(report, label, program)
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if not report.exists():
        sys.exit(f"run_tests: '{command[0]}' ended with {code} and left no report")
    cases = []
    for element, outcome, output, seconds in read_cases(report):
        cases += read_program(element.get("name"), outcome, output, seconds)
    for case in cases:
        if case.outcome == "failed":
            print(f"\n{case.output}\nfailed: {case.name}", flush=True)
    return with_failure_of(cases, code, "ctest")


# ---- pytest ----

def pytest_command(report, *selection):
    report.unlink(missing_ok=True)
    # The older family of reports names each test's file.
    return [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-ra", "--junitxml", str(report),
            "-o", "junit_family=xunit1", "-c", "tests/pytest.ini", *selection]


def read_pytest(report):
    cases = {}
    for element, outcome, output, seconds in read_cases(report):
        # Of a file that cannot be collected there is no function.
        file = f"tests/{element.get('file')}"
        name = element.get("name")
        name = f"{file}::{name}" if "::" not in name and element.get("classname") else file
        # A test whose call and whose teardown both fail is listed twice.
        earlier = cases.get(name)
        if earlier is None or earlier.outcome != "failed":
            cases[name] = Case(name, "pytest", outcome, seconds + (earlier.seconds if earlier else 0), output)
    return list(cases.values())


def cases_of_pytest(code, report):
    """What a pytest that ended with `code` did."""
    if code == 5:  # no test was selected
        return []
    if not report.exists():
        sys.exit(f"run_tests: pytest ended with {code} and left no report")
    cases = read_pytest(report)
    if code in (0, 1):
        return with_failure_of(cases, code, "pytest")
    # One file that could not be collected is enough for pytest to run no test at all.
    return [*cases, Case("pytest itself", "pytest", "failed", 0, f"it ended with {code}, and did not run all tests")]


# ---- both ----

def with_failure_of(cases, code, runner):
    """The cases, and one failed case more if the runner failed without a failed test."""
    if code != 0 and not any(case.outcome == "failed" for case in cases):
        cases.append(Case(f"{runner} itself", runner, "failed", 0, f"it ended with {code}"))
    return cases


def passes_alone(case):
    """Whether the test passes with nothing else beside it."""
    program, _, test = case.name.partition(" ")
    if case.runner == "ctest" and not test:
        again = run_ctest(program=program)
        return bool(again) and all(each.outcome != "failed" for each in again)
    report = BUILD / "alone.xml"
    if case.runner == "pytest":
        command = pytest_command(report, case.name)
    else:
        report.unlink(missing_ok=True)
        command = [str(BUILD / "bin" / program), f"--gtest_filter={test}", f"--gtest_output=xml:{report}"]
    try:
        code = subprocess.run(command, cwd=ROOT, timeout=ALONE_SECONDS,
                              env=os.environ | {"BERTH_TEST_ALONE": "1"}).returncode
    except subprocess.TimeoutExpired:
        return False
    return code == 0 and report.exists() and [outcome for _, outcome, _, _ in read_cases(report)] == ["passed"]
