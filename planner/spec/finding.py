"""What a rule that looks across fields yields, and what such a rule is called."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planner.spec.schema import Spec


@dataclass(frozen=True)
class Finding:
    """A broken rule: the path of the value to blame, what is wrong, and the nearest fix."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None
    on_key: bool = False


Rule = Callable[[Spec], Iterator[Finding]]


def rule_name(rule: Rule) -> str:
    """`kv_heads_divide` -> `kv-heads-divide`."""
    return str(getattr(rule, "__name__")).replace("_", "-")  # noqa: B009
