"""How a step of a test fails."""


class Failure(AssertionError):
    """A command failed, or a condition did not come true in time."""
