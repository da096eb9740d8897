"""The policy file: what a change of plan may do without somebody saying so.

    tpot: +5%                       # at most so much more than base
    throughput: -10%                # at most so much less: of what is better when larger
    hbm_headroom: ">= 5%"           # a bound on head itself; a list demands several things
    forbid: [reshard_weights]
    waivers:
      - {allow: tpot, reason: "until the new kernels", until: 2027-01-31}

Every mistake is a diagnostic with its line and the nearest fix, and all are told at once.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal, get_args

from planner.diff.schema import Force
from planner.spec.diagnostic import Diagnostic, Position, SpecErrors, UnreadableSpec, shown, sort_diagnostics
from planner.spec.document import Entry, Node, parse, read_text
from planner.spec.nearest import nearest
from planner.spec.units import UNITS

Measure = Literal["time", "bytes", "fraction", "chip-s", "tokens/s", "chips"]
Sign = Literal["+", "-", "<=", ">="]


@dataclass(frozen=True)
class Metric:
    """A quantity that policies limit: the numbers of a difference that hold it, the first that is there, its unit, and
    whether less of it is better."""

    addresses: tuple[str, ...]
    measure: Measure
    less_is_better: bool = True


METRICS: Mapping[str, Metric] = {
    "ttft": Metric(("service.ttft_s",), "time"),
    "tpot": Metric(("service.tpot_s",), "time"),
    "throughput": Metric(("service.tokens_per_s",), "tokens/s", less_is_better=False),
    "cost": Metric(("service.money_per_million_tokens", "service.chip_seconds_per_million_tokens"), "chip-s"),
    "chips": Metric(("chips",), "chips"),
    "generate_step": Metric(("generate.step_s",), "time"),
    "prefill_step": Metric(("prefill.step_s",), "time"),
    "hbm": Metric(("hbm.total",), "bytes"),
    "hbm_headroom": Metric(("hbm.headroom",), "fraction", less_is_better=False),
}
UNEXPLAINED = "unexplained_predictions"
FORBIDDEN = (*(each for each in get_args(Force) if each != "fewer_chips"), UNEXPLAINED)
"""What `forbid` may name: everything that costs work, and predictions that moved though nothing else did."""
KEYS = (*METRICS, "forbid", "waivers")
LONGEST_REASON = 200
WAIVER_KEYS = ("allow", "reason", "until")

DEMAND = re.compile(r"\s*(<=|>=|≤|≥|\+|-|−)\s*(\d+\.?\d*|\.\d+)\s*(%|[A-Za-z/-]*)\s*")
SIGNS: Mapping[str, Sign] = {"≤": "<=", "≥": ">=", "−": "-"}
BARE_BOUND = re.compile(r"(:\s+|-\s+|\[\s*|,\s*)>=")
"""`>=` where a value begins: YAML would read `>` as the start of a folded text."""


@dataclass(frozen=True)
class Demand:
    """One demand of a metric: a change against base in percent (`relative`) or in the base unit, or a bound on head."""

    sign: Sign
    value: float
    relative: bool
    text: str


@dataclass(frozen=True)
class Rule:
    """A rule of a policy and where it stands; without a demand the name is one of `FORBIDDEN`."""

    name: str
    place: str
    demand: Demand | None = None


@dataclass(frozen=True)
class Waiver:
    """What may be broken until the end of a day, why, and where that stands."""

    allow: str
    reason: str
    until: date
    place: str


@dataclass(frozen=True)
class Policy:
    """The rules of a policy file in its order."""

    source: str
    rules: tuple[Rule, ...]
    waivers: tuple[Waiver, ...] = ()


class PolicyErrors(SpecErrors):
    """A policy that cannot be used, with every diagnostic found in it."""

    exit_code = 2


class Wrong(Exception):
    """One mistake of a policy."""

    def __init__(self, rule: str, message: str, place: Position, hint: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(rule, message, "", place, hint)


def read_policy(path: Path) -> Policy:
    """The policy in a file; raises PolicyErrors."""
    try:
        return policy_from_text(read_text(path), str(path))
    except UnreadableSpec as error:
        raise PolicyErrors(error.diagnostics) from None


def policy_from_text(text: str, source: str) -> Policy:
    """The policy in a text that `source` names; raises PolicyErrors with every mistake."""
    try:
        root, problems = parse(BARE_BOUND.sub(r"\1≥ ", text), source)
    except SpecErrors as error:
        raise PolicyErrors(as_written(error.diagnostics, text)) from None
    reader = Reader(list(problems))
    policy = Policy(source, tuple(reader.rules(root)), tuple(reader.waivers(root)))
    reader.match(policy, root)
    if reader.found:
        raise PolicyErrors(as_written(sort_diagnostics(reader.found), text))
    return policy


def as_written(found: tuple[Diagnostic, ...], text: str) -> list[Diagnostic]:
    """Diagnostics that show the lines of the file itself."""
    lines = text.splitlines()

    def shown_line(position: Position) -> Position:
        written = position.line is not None and position.line <= len(lines)
        return replace(position, text=lines[position.line - 1]) if written and position.line else position

    return [replace(each, position=shown_line(each.position)) for each in found]


def line_of(position: Position) -> str:
    """`file:line`."""
    return f"{position.source}:{position.line}"


@dataclass
class Reader:
    """Reads a document as a policy, noting every mistake."""

    found: list[Diagnostic]

    def rules(self, root: Node) -> Iterator[Rule]:
        """The rules: those of metrics, and what is forbidden."""
        if not isinstance(root.value, dict):
            self.found.append(Wrong("type", f"a policy must be a mapping, not {shown(root.plain)}", root.position,
                                    "for example tpot: +5%").diagnostic)  # fmt: skip
        for key, entry in root.entries.items():
            if key == "forbid":
                yield from self.forbidden(entry)
            elif key in METRICS:
                for node in entry.node.value if isinstance(entry.node.value, list) else (entry.node,):
                    yield from self.demanded(key, node, entry)
            elif key != "waivers":
                self.found.append(unknown(key, KEYS, entry.key, "a policy has no").diagnostic)

    def demanded(self, name: str, node: Node, entry: Entry) -> Iterator[Rule]:
        """The rule of one demand, unless it is wrong."""
        place = node.position if node.position.length else entry.key
        try:
            yield Rule(name, line_of(place), demand(name, node, place))
        except Wrong as wrong:
            self.found.append(wrong.diagnostic)

    def forbidden(self, entry: Entry) -> Iterator[Rule]:
        """The rules of `forbid`."""
        if not isinstance(entry.node.value, list):
            hint = f"write forbid: [{FORBIDDEN[2]}]"
            message = f"forbid must be a list, not {shown(entry.node.plain)}"
            self.found.append(Wrong("type", message, entry.place, hint).diagnostic)
            return
        seen: set[object] = set()
        for node in entry.node.value:
            name = node.plain
            if name in FORBIDDEN and name not in seen:
                yield Rule(str(name), line_of(node.position))
            elif name in seen:
                self.found.append(Wrong("repeated", f"forbid names {name} twice", node.position).diagnostic)
            else:
                self.found.append(
                    unknown(str(name), FORBIDDEN, node.position, "nothing to forbid is called").diagnostic
                )
            seen.add(name if isinstance(name, str) else None)

    def waivers(self, root: Node) -> Iterator[Waiver]:
        """The waivers."""
        node = root.get("waivers")
        if node is None or node.value is None:
            return
        if not isinstance(node.value, list):
            hint = 'write - {allow: tpot, reason: "why", until: 2027-01-31}'
            message = f"waivers must be a list, not {shown(node.plain)}"
            self.found.append(Wrong("type", message, root.entries["waivers"].place, hint).diagnostic)
            return
        for item in node.value:
            try:
                yield waiver(item)
            except Wrong as wrong:
                self.found.append(wrong.diagnostic)

    def match(self, policy: Policy, root: Node) -> None:
        """Note waivers of rules that the policy does not have."""
        rules = {rule.name for rule in policy.rules}
        node = root.get("waivers")
        for item in node.value if node and isinstance(node.value, list) else ():
            allow = item.entries.get("allow")
            if allow and allow.node.plain in (*METRICS, *FORBIDDEN) and allow.node.plain not in rules:
                message = f"the policy has no rule {allow.node.plain} that could be waived"
                hint = f"its rules: {', '.join(sorted(rules)) or 'none'}"
                self.found.append(Wrong("waiver", message, allow.place, hint).diagnostic)


def unknown(name: str, known: tuple[str, ...], place: Position, opening: str) -> Wrong:
    """The mistake of a name that nobody knows."""
    close = nearest(name, known)
    hint = f'did you mean "{close}"?' if close else f"known: {', '.join(known)}"
    return Wrong("unknown-key", f'{opening} "{name}"', place, hint)


def demand(name: str, node: Node, place: Position) -> Demand:
    """What is demanded of a metric; raises Wrong."""
    metric = METRICS[name]
    # A signed number, such as +0, is read as a number: its sign stands in the file alone.
    text = node.value if isinstance(node.value, str) else place.text[place.column - 1 :][: place.length]
    match = DEMAND.fullmatch(text)
    if match is None:
        bound = "<=" if metric.less_is_better else ">="
        change = "+" if metric.less_is_better else "-"
        hint = f'write {change}5% for a change against base, or "{bound} {example(metric)}" for a bound'
        raise Wrong("demand", f"{name} cannot be {shown(node.plain)}: that is no demand", place, hint)
    sign = SIGNS.get(match[1], match[1])
    assert sign in get_args(Sign)
    # A share changes by points: 12 % of HBM to 10 % is -2%.
    relative = match[3] == "%" and sign in ("+", "-") and metric.measure != "fraction"
    value = float(match[2]) if relative else in_unit(name, metric, float(match[2]), match[3], place)
    told = f"{sign}{'' if sign in '+-' else ' '}{match[2]}{'' if match[3] in ('', '%') else ' '}{match[3]}"
    return Demand(sign, value, relative, told)  # type: ignore[arg-type]


def example(metric: Metric) -> str:
    """A bound as it could be written."""
    return {"time": "30 ms", "bytes": "14 GB", "fraction": "5%", "chip-s": "12000", "tokens/s": "500", "chips": "16"}[
        metric.measure
    ]


def in_unit(name: str, metric: Metric, number: float, unit: str, place: Position) -> float:
    """A number with a unit in the base unit of its metric; raises Wrong."""
    if unit in UNITS and UNITS[unit][0] == metric.measure:
        return number * UNITS[unit][1]
    if unit in ("", metric.measure) and metric.measure not in ("time", "bytes", "fraction"):
        return number
    known = [each for each, (measure, _) in UNITS.items() if measure == metric.measure] or [metric.measure]
    wrong = f'"{unit}" is not a unit of {name}' if unit else f"{name} needs a unit"
    raise Wrong("unit", wrong, place, f"units: {', '.join(known)}, as in {example(metric)}")


def waiver(item: Node) -> Waiver:
    """One waiver; raises Wrong."""
    for key, entry in item.entries.items():
        if key not in WAIVER_KEYS:
            raise unknown(key, WAIVER_KEYS, entry.key, "a waiver has no")
    for key in WAIVER_KEYS:
        if key not in item.entries:
            raise Wrong("missing-key", f"a waiver lacks {key}", item.position, f"a waiver has {', '.join(WAIVER_KEYS)}")
    allow, reason, until = (item.entries[key] for key in WAIVER_KEYS)
    name, why = str(allow.node.plain), str(reason.node.plain or "").strip()
    if name not in (*METRICS, *FORBIDDEN):
        raise unknown(name, (*METRICS, *FORBIDDEN), allow.place, "no rule is called")
    if not why:
        raise Wrong("reason", "a waiver needs a reason", reason.place, "say who decided it and what ends it")
    if len(why) > LONGEST_REASON:
        message = f"a reason of {len(why)} characters is too long"
        raise Wrong("reason", message, reason.place, f"say it in {LONGEST_REASON}, and link to the rest")
    return Waiver(name, " ".join(why.split()), day(until), line_of(allow.key))


def day(entry: Entry) -> date:
    """The last day of a waiver; raises Wrong."""
    try:
        return date.fromisoformat(str(entry.node.plain))
    except ValueError:
        hint = "write a day as 2027-01-31"
        raise Wrong("date", f"until cannot be {shown(entry.node.plain)}: that is no day", entry.place, hint) from None
