"""The virtual machine of the tests; machine.py says how to use it."""
from .machine import HOST, Failure, Machine, available
from .together import connect, run_together

__all__ = ["HOST", "Failure", "Machine", "available", "connect", "run_together"]
