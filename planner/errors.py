"""Errors that end a command with a message.

ShardwrightError        the message says what, where and the nearest fix
├── Unsupported         a valid spec that asks for what is not built yet (exit 1)
├── InfeasibleSpec      no plan keeps every limit (exit 3)
├── PlanFileError       a plan file that cannot be read (exit 2)
├── NotProved           the solver ran out of its deterministic time (exit 2)
└── CannotRun           something else is missing, such as jax for verify (exit 2)
"""


class ShardwrightError(Exception):
    """The base of all errors that a user can cause; `heading` opens the message."""

    exit_code = 2
    heading = "error"


class Unsupported(ShardwrightError):
    """A spec that is valid, and that no plan or package exists for yet; the message names what stands in the way."""

    exit_code = 1
    heading = "unsupported"


class InfeasibleSpec(ShardwrightError):
    """No plan exists. The message says what conflicts, by how much, and which changes were solved and do fit."""

    exit_code = 3
    heading = "infeasible"


class PlanFileError(ShardwrightError):
    """A plan that cannot be read; the message names the file and what is wrong in it."""


class NotProved(ShardwrightError):
    """No optimum was proved within the solver's deterministic time; nothing unproved is called a plan."""


class CannotRun(ShardwrightError):
    """The work needs something that is not there; the message says how to get it."""
