"""`ADDRESS=VALUE` -> a pin, and a spec with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cost_models.chips import chip
from cost_models.torus import IllegalSlice, parse_slice
from planner.errors import ShardwrightError
from planner.plan.machine import machine_of, rules_of
from planner.plan.schema import Plan
from planner.problem.build import batches_of, pieces_of
from planner.problem.pins import allowed_by
from planner.spec import PINS, PinValue, Spec, SpecErrors
from planner.spec.document import parse
from planner.spec.nearest import nearest
from planner.spec.pins import LISTS, pin_address, pin_choices, pin_problem, read_pins, written
from planner.spec.rules import copies_problem, pin_hint
from planner.spec.serving_rules import mesh_of_phases


class WrongPin(ShardwrightError):
    """What is asked about cannot be pinned, or not to this value; the message says what can."""


@dataclass(frozen=True)
class Pin:
    """One choice that a plan might have made otherwise."""

    address: str
    value: PinValue

    @classmethod
    def read(cls, text: str, spec: Spec) -> "Pin":
        """The pin in `ADDRESS=VALUE`; raises WrongPin."""
        name, equals, given = text.partition("=")
        if not equals or not name.strip():
            raise WrongPin(f'"{text}" is not of the form ADDRESS=VALUE; for example generate.kv_cache=heads')
        address = pin_address(name.strip())
        if address is None:
            raise WrongPin(f'"{name.strip()}" cannot be pinned; {pin_hint(name.strip())}')
        value = read_value(address, given.strip())
        if problem := value_problem(address, value, spec):
            raise WrongPin(problem)
        return cls(address, value)

    @classmethod
    def read_all(cls, text: str, spec: Spec) -> "tuple[Pin, ...]":
        """The pins in `ADDRESS=VALUE & ADDRESS=VALUE`; raises WrongPin."""
        pins = tuple(cls.read(part.strip(), spec) for part in text.split("&"))
        for address in (pin.address for pin in pins):
            if sum(pin.address == address for pin in pins) > 1:
                raise WrongPin(f'"{text}" asks for {address} twice; ask with another --why-not')
        asks_for_mesh = any(pin.address in MESHES for pin in pins)
        for finding in mesh_of_phases(pinned(spec, pins)[0]) if asks_for_mesh else ():
            raise WrongPin(f"{finding.message}{f'; {finding.hint}' if finding.hint else ''}")
        return pins

    @property
    def text(self) -> str:
        """The pin as it is asked for."""
        value = written(self.address, self.value)
        return f"{self.address}={value}" if not isinstance(value, list) else f"{self.address}={','.join(value)}"


def read_value(address: str, text: str) -> PinValue:
    """The value of a pin as a spec file would hold it; a slice stays as it is written, and `x,y` is a list."""
    if PINS[address] == "slice":
        return text
    if PINS[address] in LISTS and "," in text and not text.startswith("["):
        text = f"[{text}]"
    try:
        node, problems = parse(text, text)
    except SpecErrors:
        return text
    data = read_pins({address: text if problems else node.plain})
    assert isinstance(data, Mapping)
    value: PinValue = data[address]
    return value


def value_problem(address: str, value: PinValue, spec: Spec) -> str | None:
    """What is wrong with the value of a pin, with the nearest that is right; None for nothing."""
    if problem := pin_problem(address, value):
        close = nearest(str(value), pin_choices(address))
        return f'{problem}; did you mean "{close}"?' if close else problem
    if (address, value) == ("generate.speculation", "on") and spec.serving.speculation is None:
        return "generate.speculation cannot be on: serving.speculation does not say what drafts cost"
    if address == "prefill.copies":
        return copies_problem(spec, value)
    if address == "slice":
        try:
            parse_slice(chip(spec.hardware.chip), str(value))
        except IllegalSlice as error:
            return str(error)
    return None


def pinned(spec: Spec, pins: tuple[Pin, ...]) -> tuple[Spec, list[str]]:
    """The spec with more pins, and what had to give way: its own pins of the same addresses, its list of slices."""
    notes: list[str] = []
    for pin in pins:
        notes += conflicts(spec, pin)
    changes: dict[str, object] = {"pins": without_other_mesh(spec, pins) | {pin.address: pin.value for pin in pins}}
    slices = [str(pin.value) for pin in pins if pin.address == "slice" and pin.value not in spec.hardware.slices]
    if slices:
        changes["hardware"] = spec.hardware.model_copy(update={"slices": tuple(slices)})
    return spec.model_copy(update=changes), notes


def conflicts(spec: Spec, pin: Pin) -> Iterator[str]:
    """What has to give way to a pin, or is beyond what the spec allows."""
    own = spec.pins.get(pin.address)
    if own is not None and own != pin.value:
        yield f"instead of the spec's own pin {Pin(pin.address, own).text}"
    if pin.address == "generate.batch" and pin.value not in (allowed := batches_of(spec)):
        yield f"{pin.value} is not among the batches that the spec allows: {', '.join(map(str, allowed))}"
    if pin.address == "slice" and pin.value not in spec.hardware.slices:
        yield f"{pin.value} is not among hardware.slices: {', '.join(spec.hardware.slices)}"


MESHES = ("generate.mesh", "prefill.mesh")


def without_other_mesh(spec: Spec, pins: tuple[Pin, ...]) -> dict[str, PinValue]:
    """The spec's own pins, less those of the mesh where another one is asked for: both phases have the same."""
    asked = any(pin.address in MESHES for pin in pins)
    return {address: value for address, value in spec.pins.items() if not (asked and address in MESHES)}


def has(plan: Plan, pin: Pin) -> bool:
    """Whether a plan is as a pin wants it."""
    if pin.address == "slice":
        return plan.slice == pin.value
    if pin.address == "generate.batch":
        return plan.generate.batch == pin.value
    if pin.address == "prefill.prompts":
        return plan.prefill.prompts == pin.value
    if pin.address == "generate.speculation":
        return (plan.generate.speculation is not None) == (pin.value == "on")
    if pin.address == "prefill.chunk":
        return plan.prefill.chunk == (None if pin.value == "none" else pin.value)
    if pin.address in MESHES:
        return isinstance(pin.value, tuple) and {f"{a.name}={a.size}" for a in plan.mesh.axes} == set(pin.value)
    if pin.address == "prefill.copies":
        return set(plan.prefill.copies or ()) == (
            {str(each) for each in pin.value} if isinstance(pin.value, tuple) else set()
        )
    machine, rules = machine_of(plan), rules_of(plan)
    filters = allowed_by({pin.address: pin.value}, pieces_of(machine.mesh))
    return all(
        each.generate(rules.generate) and each.prefill(rules.read(block), rules.prefill)
        for block, each in filters.items()
    )
