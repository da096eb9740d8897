"""The CP-SAT model of one candidate.

    y[o] in {0, 1}   option o is taken;  x[r] in {0, 1}   the residual stream has layout r
    one residual layout, one option per block                                        (takes_one_of_each)
    an option is taken only with its residual layout: clauses, no numbers            (agrees_on_residual)
    sum over taken options of a limited quantity <= its limit                        (keeps_limits)
    minimise the goal; then, with the goal fixed, HBM and the rank of the options    (solve_candidate)

OR-tools 9.15 can answer wrongly when an *enforced* linear row has coefficients that sum past 2^31. This model has
none: agreement is clauses, and every linear row holds unconditionally. `assert_safe` keeps it so.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod

from ortools.sat.python import cp_model

from planner.errors import NotProved
from planner.problem.problem import Weights
from planner.solve.candidate import Candidate, Choice, Forbidden, is_forbidden

ENFORCED_ROW_LIMIT = 2**30
OBJECTIVE_LIMIT = 2**60
"""The solver refuses an objective whose coefficients may sum past 2^63."""
HBM = Weights(0, 0, 1)
SOLVE_DETERMINISTIC_S = 60.0


@dataclass(frozen=True)
class Taken:
    """A solution of one candidate: one choice per block, and the goal without its scale."""

    candidate: Candidate
    choices: tuple[Choice, ...]

    def quantity(self, weights: Weights) -> int:
        """A linear quantity of the solution, recomputed from the integer tables."""
        return sum(weights.of(*choice.cost) for choice in self.choices)

    @property
    def value(self) -> Fraction:
        """The goal, in nanoseconds of a request."""
        weights = self.candidate.weights()
        return self.candidate.base + self.quantity(weights) * weights.scale


@dataclass
class Model:
    """Variables of one candidate, by the choice they stand for."""

    candidate: Candidate
    choices: list[Choice]
    cp: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    taken: list[cp_model.IntVar] = field(default_factory=list)
    residual: dict[int, cp_model.IntVar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks = self.candidate.table.blocks
        self.taken = [self.cp.new_bool_var(f"takes[{blocks[c.block].name},{c.index}]") for c in self.choices]
        self.residual = {
            r: self.cp.new_bool_var(f"residual[{r}]") for r in sorted({choice.residual for choice in self.choices})
        }

    @cached_property
    def counts(self) -> list[int]:
        """Choices of each block."""
        count = Counter(choice.block for choice in self.choices)
        return [count[number] for number in range(len(self.candidate.table.blocks))]

    def quantity(self, weights: Weights) -> cp_model.LinearExprT:
        """A linear quantity of the taken choices."""
        return cp_model.LinearExpr.weighted_sum(self.taken, [weights.of(*choice.cost) for choice in self.choices])


def takes_one_of_each(model: Model) -> None:
    """One residual layout, and one option of every block."""
    model.cp.add_exactly_one(model.residual.values())
    for number in range(len(model.candidate.table.blocks)):
        model.cp.add_exactly_one(t for t, c in zip(model.taken, model.choices, strict=True) if c.block == number)


def agrees_on_residual(model: Model) -> None:
    """A taken option implies its layout of the residual stream."""
    for taken, choice in zip(model.taken, model.choices, strict=True):
        model.cp.add_implication(taken, model.residual[choice.residual])


def keeps_limits(model: Model) -> None:
    """HBM per chip, TTFT and TPOT stay within their limits."""
    for weights, bound in model.candidate.limit_rows():
        model.cp.add(model.quantity(weights) <= bound)


def avoids(model: Model, forbidden: Forbidden | None) -> None:
    """Not every block that has forbidden options takes one."""
    if forbidden is None:
        return
    blocks = sum(hits is not None for hits in forbidden)
    pairs = zip(model.taken, model.choices, strict=True)
    model.cp.add(sum(taken for taken, choice in pairs if is_forbidden(choice, forbidden)) <= blocks - 1)


def assert_safe(model: cp_model.CpModel) -> None:
    """No enforced linear row is large enough to be mishandled."""
    for constraint in model.proto.constraints:
        if constraint.enforcement_literal and constraint.has_linear():
            assert sum(abs(c) for c in constraint.linear.coeffs) < ENFORCED_ROW_LIMIT, constraint.name


def run(model: cp_model.CpModel) -> cp_model.CpSolver | None:
    """A solver that proved an optimum, or None when there is no solution. One worker and a fixed seed: repeatable."""
    assert_safe(model)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = SOLVE_DETERMINISTIC_S
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise NotProved(
            f"the solver stopped with {solver.status_name(status)} after {SOLVE_DETERMINISTIC_S:g} deterministic "
            "seconds; allow fewer slices, or pin a layout"
        )
    return solver


def solve_candidate(candidate: Candidate, choices: list[Choice], forbidden: Forbidden | None = None) -> Taken | None:
    """The best solution of a candidate, ties broken by HBM and then by option order; None if there is none."""
    if len({choice.block for choice in choices}) < len(candidate.table.blocks):
        return None
    model = Model(candidate, choices)
    for constrain in (takes_one_of_each, agrees_on_residual, keeps_limits):
        constrain(model)
    avoids(model, forbidden)
    goal = model.quantity(candidate.weights())
    model.cp.minimize(goal)
    solver = run(model.cp)
    if solver is None:
        return None
    best = taken_by(model, solver)
    model.cp.add(goal <= best.quantity(candidate.weights()))
    return first_of_ties(model)


def first_of_ties(model: Model) -> Taken:
    """The solution of least HBM, and of those the one whose options come first: asked at once while numbers allow."""
    span, place = rank_span(model), ranks(model)
    if span * sum(choice.hbm for choice in model.choices) < OBJECTIVE_LIMIT:
        model.cp.minimize(model.quantity(Weights(0, 0, span)) + place)
    else:
        model.cp.minimize(model.quantity(HBM))
        least = run(model.cp)
        assert least is not None
        model.cp.add(model.quantity(HBM) <= taken_by(model, least).quantity(HBM))
        model.cp.minimize(place)
    tied = run(model.cp)
    assert tied is not None
    return taken_by(model, tied)


def taken_by(model: Model, solver: cp_model.CpSolver) -> Taken:
    """The choices a solver took, by block."""
    chosen = [c for t, c in zip(model.taken, model.choices, strict=True) if solver.boolean_value(t)]
    return Taken(model.candidate, tuple(sorted(chosen, key=lambda choice: choice.block)))


def rank_span(model: Model) -> int:
    """A number above any sum of ranks, so that HBM comes first."""
    return prod(model.counts)


def ranks(model: Model) -> cp_model.LinearExprT:
    """The mixed-radix number of the taken choices: lower for those that come earlier in the tables."""
    order = sorted(model.choices, key=lambda choice: (choice.block, choice.index))
    first = [sum(model.counts[:block]) for block in range(len(model.counts))]
    rank = {(c.block, c.index): place - first[c.block] for place, c in enumerate(order)}
    return cp_model.LinearExpr.weighted_sum(
        model.taken, [rank[c.block, c.index] * prod(model.counts[c.block + 1 :]) for c in model.choices]
    )
