"""Which changed input made which decision: specs between base and head, solved with inputs changed one at a time.

    alone       base with one input as in head decides as head does
    either      so do several, each alone
    together    none does alone; those are named without which head would not decide so
    catalogue   base's own spec, solved today, decides as head does: prices changed since base was planned

Each spec is solved once. What one input does alone is always solved, what head does without one only where a decision
has no other explanation; with two inputs these are the same specs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from planner.diff.compare import numbers
from planner.diff.decisions import Decided, decided
from planner.diff.inputs import UNSOLVED, mixed, value_at
from planner.diff.schema import CATALOGUE, Alone, Decision, Input, Number, PlanDiff
from planner.diff.sides import Side
from planner.errors import ShardwrightError
from planner.plan.chosen import chosen_of
from planner.plan.make import bare_plan
from planner.plan.schema import Plan
from planner.problem.costs import total_s
from planner.spec import is_consistent, spec_from_data

MOST_INPUTS = 12
"""More inputs than this are another service, not a change of one."""

TOLD = (
    "service.ttft_s",
    "service.tpot_s",
    "service.tokens_per_s",
    "service.chip_seconds_per_million_tokens",
    "generate.step_s",
    "prefill.step_s",
    "chips",
)
"""What is told of an input alone."""

SAME_PRICES = 1e-4
"""Plan files hold six digits."""

CLEAR = 1e-3
"""How far below a limit a plan must stay to keep it by any rounding."""

Named = frozenset[str]


@dataclass
class Mixes:
    """The plans of specs between base and head, by the inputs that are as in head; each is solved once."""

    base: Side
    head: Side
    inputs: Named
    known: dict[Named, Plan | None] = field(default_factory=dict)
    invalid: set[Named] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Sides that were solved today need no second time."""
        for side, named in ((self.base, frozenset[str]()), (self.head, self.inputs)):
            if side.solved:
                self.known[named] = side.plan

    def plan(self, named: Named) -> Plan | None:
        """The plan with these inputs as in head, None where there is none."""
        key = named - UNSOLVED if named != self.inputs else named
        if key - UNSOLVED == self.inputs - UNSOLVED and self.inputs in self.known:
            key = self.inputs
        if key not in self.known:
            same = self.without_loose_limits(key)
            self.known[key] = self.known[same] if same in self.known else self.solve(key)
        return self.known[key]

    def without_loose_limits(self, named: Named) -> Named:
        """The same inputs less limits that the best plan without them keeps: it is the best of fewer plans as well."""
        limits = frozenset(each for each in named if each in ("limits.ttft", "limits.tpot"))
        plan = self.known.get(named - limits)
        if plan is None or plan.fleet is not None or not all(self.is_loose(each, plan) for each in limits):
            return named
        return named - limits

    def is_loose(self, address: str, plan: Plan) -> bool:
        """Whether head's limit is a new or a lower one, and a plan stays clear of it."""
        before, after = (limit_s(side.spec, address) for side in (self.base, self.head))
        if after is None or (before is not None and before < after):
            return False
        reached = plan.service.ttft_s if address == "limits.ttft" else plan.service.tpot_s
        return reached < after * (1 - CLEAR)

    def solve(self, named: Named) -> Plan | None:
        """The plan of one spec; a spec that cannot be is noted."""
        try:
            spec = spec_from_data(mixed(self.base.spec, self.head.spec, named))
            if is_consistent(spec):
                return bare_plan(spec)
        except (ValidationError, ShardwrightError, LookupError):
            pass
        self.invalid.add(named)
        return None

    def decided(self, named: Named) -> Decided:
        """What is decided with these inputs as in head; nothing where there is no plan."""
        plan = self.plan(named)
        return {} if plan is None else decided(plan)

    def alone(self, address: str) -> Alone:
        """What one input does when nothing else changes."""
        named, own = frozenset({address}), self.plan(frozenset())
        plan = self.plan(named)
        if plan is None or own is None:
            wrong = named - UNSOLVED in self.invalid
            return Alone(verdict="invalid" if wrong else "infeasible" if plan is None else "plan")
        return Alone(verdict="plan", numbers=tuple(each for each in numbers(own, plan) if each.address in TOLD))


def limit_s(spec: Mapping[str, object], address: str) -> float | None:
    """A limit of a spec as a plan file holds it, in seconds."""
    value = value_at(spec, tuple(address.split(".")))
    return None if value is None else float(str(value).removesuffix(" s"))


def attributed(found: PlanDiff, base: Side, head: Side) -> PlanDiff:
    """A difference with the causes of its decisions and what each input does alone."""
    if any(side.plan is not None and side.plan.proof.near is not None for side in (base, head)):
        return found.model_copy(update={"attribution": "near"})
    if len(found.inputs) > MOST_INPUTS:
        return found.model_copy(update={"attribution": "too_many"})
    if base.plan is not None and not base.solved:
        found = found.model_copy(update={"repriced": repriced(base.plan)})
    able = tuple(names(found.inputs))
    if not able or (len(able) == 1 and base.solved and head.solved):
        return found
    mixes = Mixes(base, head, frozenset(each.address for each in found.inputs))
    inputs = tuple(
        each.model_copy(update={"alone": mixes.alone(each.address)}) if each.address in able else each
        for each in found.inputs
    )
    caused = tuple(with_causes(each, mixes, found.inputs) for each in found.decisions)
    return found.model_copy(update={"inputs": inputs, "decisions": caused, "attribution": "solved"})


def repriced(plan: Plan) -> tuple[Number, ...]:
    """The steps of a plan's own layouts as it says, and by today's prices; nothing where these are the same."""
    try:
        chosen = chosen_of(plan)
    except LookupError:  # of a chip or a stack that the catalogue does not have any more
        return ()
    today = (
        ("generate.step_s", "generate step", plan.generate.step_s, total_s(chosen.generate_parts(), chosen.machine)),
        ("prefill.step_s", "prefill", plan.prefill.step_s, total_s(chosen.prefill_parts(), chosen.reads.machine)),
    )
    told = tuple(Number(address=a, title=t, unit="s", base=before, head=now) for a, t, before, now in today)
    return told if any(abs(each.change) > SAME_PRICES * each.head for each in told) else ()


def with_causes(decision: Decision, mixes: Mixes, inputs: Iterable[Input]) -> Decision:
    """A decision with the inputs that made it."""
    wanted, address = decision.head, decision.address
    if reaches(mixes, frozenset(), address, wanted):
        return decision.model_copy(update={"causes": (CATALOGUE,), "how": "catalogue"})
    alone = tuple(each for each in names(inputs) if reaches(mixes, frozenset({each}), address, wanted))
    if alone:
        return decision.model_copy(update={"causes": alone, "how": "alone" if len(alone) == 1 else "either"})
    if not reaches(mixes, mixes.inputs, address, wanted):
        return decision.model_copy(update={"causes": (CATALOGUE,), "how": "catalogue"})
    needed = tuple(each for each in names(inputs) if not reaches(mixes, mixes.inputs - {each}, address, wanted))
    return decision.model_copy(update={"causes": needed or tuple(names(inputs)), "how": "together"})


def reaches(mixes: Mixes, named: Named, address: str, wanted: str) -> bool:
    """Whether a plan with these inputs as in head decides as wanted."""
    return mixes.plan(named) is not None and mixes.decided(named).get(address, "") == wanted


def names(inputs: Iterable[Input]) -> Iterator[str]:
    """The addresses of inputs that a decision can depend on."""
    yield from (each.address for each in inputs if each.address not in UNSOLVED)
