"""A rule of the CSI specification as a case: a name, the section, what it says, and a function that tries it."""


class Violation(AssertionError):
    """The driver broke a rule; the message begins with the rule's name."""

    def __init__(self, rule, what):
        super().__init__(f"[{rule}] {what}")
        self.rule = rule


class Case:
    def __init__(self, name, section, rule, needs, check):
        self.name = name
        self.section = section
        self.rule = rule
        self.needs = needs
        self.check = check

    def missing(self, capabilities):
        """Gives what the case needs and the driver does not offer."""
        return sorted(set(self.needs) - capabilities)

    def run(self, bench):
        """Runs the case, and raises a Violation if the driver breaks the rule. What the case made is removed again."""
        try:
            self.check(bench)
        except (AssertionError, OSError) as failure:
            if isinstance(failure, Violation):
                raise
            raise Violation(self.name, f"CSI, {self.section}: {self.rule}: {failure}") from failure
        finally:
            bench.clean()


CASES = []


def case(name, section, rule, needs=()):
    def register(function):
        CASES.append(Case(name, section, rule, (needs,) if isinstance(needs, str) else needs, function))
        return function
    return register
