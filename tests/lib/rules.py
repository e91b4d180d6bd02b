"""Rules of an API as cases, for the conformance suites: a name, the section, what it says, and a function that tries it."""


class Refused(Exception):
    """The peer answered with an error."""

    def __init__(self, method, code, text):
        super().__init__(f"{method}: {code}: {text}")
        self.method = method
        self.code = code
        self.text = text


class Violation(AssertionError):
    """The peer broke a rule; the message begins with the rule's name."""

    def __init__(self, rule, what):
        super().__init__(f"[{rule}] {what}")
        self.rule = rule


class Case:
    def __init__(self, suite, name, section, rule, needs, check):
        self.suite = suite
        self.name = name
        self.section = section
        self.rule = rule
        self.needs = needs
        self.check = check

    def missing(self, capabilities):
        """Gives what the case needs and the peer does not offer. The need "not X" is that the peer does not offer X."""
        return sorted(need for need in self.needs if (need.removeprefix("not ") in capabilities) == need.startswith("not "))

    def run(self, bench):
        """Runs the case, and raises a Violation if the peer breaks the rule. What the case made is removed again."""
        try:
            self.check(bench)
        except (AssertionError, OSError, *self.suite.failures) as failure:
            if isinstance(failure, Violation):
                raise
            raise Violation(self.name, f"{self.suite.specification}, {self.section}: {self.rule}: {failure}") from failure
        finally:
            bench.clean()


class Suite:
    """The cases of one specification, which register themselves by `case`. `refusals_break`: a call of a case that is refused
    unexpectedly breaks the case's rule; otherwise it may belong to another rule."""

    def __init__(self, specification, refusals_break=False):
        self.specification = specification
        self.failures = (Refused,) if refusals_break else ()
        self.cases = []

    def case(self, name, section, rule, needs=()):
        def register(function):
            self.cases.append(Case(self, name, section, rule, (needs,) if isinstance(needs, str) else needs, function))
            return function
        return register


def broken_rules(bench, capabilities, cases):
    """Runs the cases that the peer's capabilities allow, and gives (rule, message) of each broken rule."""
    for case in cases:
        if case.missing(capabilities):
            continue
        try:
            case.run(bench)
        except Violation as violation:
            yield violation.rule, str(violation)
        except Refused:
            pass  # this belongs to another rule
