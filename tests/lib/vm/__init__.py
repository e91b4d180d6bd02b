"""The virtual machine of the tests; machine.py says how to use it."""
from .machine import Failure, Machine, available

__all__ = ["Failure", "Machine", "available"]
