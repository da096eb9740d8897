"""An infeasible spec, told so that it can be mended: what conflicts, by how much, and which changes would fit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from shlex import quote

from cost_models.chips import chip
from cost_models.torus import legal_slices, parse_slice
from planner.plan.optimum import optimum_of
from planner.plan.units import bytes_text, seconds_text
from planner.problem.build import Built, build, pinned_slices
from planner.problem.no_layout import why_no_layout
from planner.problem.pools import Apart
from planner.problem.problem import NS, UNIT_BYTES, Limits
from planner.solve.infeasible import Infeasible, Need, explain_infeasible, explain_infeasible_fleet
from planner.solve.search import search
from planner.spec import Lines, Spec, spec_from_data, spec_to_data

LARGEST_FACTOR = 8
SHORTEST_CONTEXT = 128

Changes = dict[str, object]


@dataclass(frozen=True)
class Remedy:
    """A change of the spec that was solved and found feasible."""

    changes: Changes

    def text(self) -> str:
        """The change as `--set` arguments, quoted for a shell."""
        return " ".join(f"--set {quote(f'{path}={value}')}" for path, value in self.changes.items())


def no_lines(*path: str) -> str:
    """Where the values of a spec without a file are set: nowhere."""
    return ""


def conflict_text(spec: Spec, infeasible: Infeasible, lines: Lines = no_lines) -> list[str]:
    """The conflict in sentences, with what is needed, what there is, and the difference.

    `lines` tell where the spec sets a value.
    """
    told = [f"no plan for {spec.name} on {spec.hardware.chip} {' or '.join(pinned_slices(spec))}{slice_line(lines)}"]
    if not infeasible.conflict:
        kept = conflicting_pins(spec)
        reasons = why_no_layout(spec.model_copy(update={"pins": {name: spec.pins[name] for name in kept}}))
        told.append(f"  no layout is legal on any mesh of the slice{pins_text(spec, kept, lines)}")
        return [*told, *(f"    {reason}" for reason in reasons)]
    return [*told, *(f"  {text}" for text in need_texts(spec, infeasible, lines))]


def need_texts(spec: Spec, infeasible: Infeasible, lines: Lines = no_lines) -> list[str]:
    """Each limit of a conflict in a sentence."""
    joint = len(infeasible.conflict) > 1
    return [need_text(spec, need, joint, lines) for need in infeasible.conflict]


def slice_line(lines: Lines) -> str:
    """Where the spec says which slices may be used: `: hardware.slice (line 9)`."""
    for name, path in (("pins.slice", ("pins", "slice")), ("hardware.slice", ("hardware", "slices"))):
        if found := lines(*path):
            return f": {name} ({found})"
    return ""


def pins_text(spec: Spec, addresses: list[str], lines: Lines = no_lines) -> str:
    """The pins that cannot be kept together, as the spec writes them."""
    written = spec_to_data(spec).get("pins", {})
    places = {address: lines("pins", address) for address in written}
    listed = ", ".join(
        f"{address}: {written[address]}{f' ({places[address]})' if places[address] else ''}" for address in addresses
    )
    return f"; these pins cannot be kept together: {listed}" if listed else ""


def conflicting_pins(spec: Spec) -> list[str]:
    """The addresses of a minimal set of pins under which no layout is legal, sorted."""
    pins = dict(spec.pins)
    for address in list(pins):
        fewer = {name: value for name, value in pins.items() if name != address}
        if has_no_layout(spec.model_copy(update={"pins": fewer})):
            pins = fewer
    return sorted(pins)


def has_no_layout(spec: Spec) -> bool:
    """Whether no layout is legal, whatever it costs."""
    return search(replace(build(spec).problem, limits=Limits(), arrivals=None)) is None


def need_text(spec: Spec, need: Need, joint: bool, lines: Lines = no_lines) -> str:
    """One limit of the conflict. `joint`: it is impossible only together with the others."""
    least = "while the other limits hold, the least possible is" if joint else "the least possible is"
    if need.limit == "hbm":
        have, needed = need.have * UNIT_BYTES, need.need * UNIT_BYTES
        capacity = chip(spec.hardware.chip).hbm_bytes
        reserve = lines("hardware", "reserve")
        return (
            f"HBM: {least} {bytes_text(needed)} per chip, and {bytes_text(have)} is available ({bytes_text(capacity)} "
            f"less the reserve{reserve and f', {reserve}'}): {bytes_text(needed - have)} missing per chip"
        )
    if need.limit == "fleet_chips":
        place = lines("hardware", "fleet_chips")
        name = f"chips of the fleet (hardware.fleet_chips{place and f', {place}'})"
        return f"{name}: {least} {need.need}, and there may be {need.have}"
    have_s, need_s = need.have / NS, need.need / NS
    place = lines("limits", need.limit)
    name = f"{need.limit.upper()} (limits.{need.limit}{place and f', {place}'})"
    over = seconds_text(need_s - have_s)
    return f"{name}: {least} {seconds_text(need_s)}, the limit is {seconds_text(have_s)}: {over} over"


def remedies(spec: Spec, infeasible: Infeasible) -> Iterator[Remedy]:
    """The nearest changes of each kind that do fit, each verified by solving."""
    if not infeasible.conflict:
        return
    groups = [
        limit_changes(infeasible),
        chunk_changes(spec, infeasible),
        slice_changes(spec),
        dtype_changes(spec),
        context_changes(spec),
    ]
    for group in groups:
        found = next((changes for changes in group if is_feasible(spec, changes)), None)
        if found is not None:
            yield Remedy(found)


def is_feasible(spec: Spec, changes: Changes) -> bool:
    """Whether the spec has a plan after these changes."""
    return optimum_of(build(changed(spec, changes))) is not None


def reasons_of(built: Built) -> Infeasible:
    """Why there is no plan. Where both modes may be taken: the smaller of the fleets that would do, or what slices that
    take turns lack."""
    found = [explain_infeasible(built.problem)] if built.together else []
    if built.apart:
        found.append(explain_infeasible_fleet(min(built.apart, key=stored_bytes)))
    fleets = [(each.conflict[0].need, place) for place, each in enumerate(found) if is_too_large(each)]
    return found[min(fleets)[1]] if fleets else found[0]


def is_too_large(infeasible: Infeasible) -> bool:
    """Whether nothing is wrong but the number of chips."""
    return [need.limit for need in infeasible.conflict] == ["fleet_chips"]


def stored_bytes(apart: Apart) -> tuple[float, float]:
    """Bytes of a weight and of a cached value: with the fewest a fleet lacks least."""
    sizes = apart.generate[0].problem.meshes[0].source.machine.sizes
    return sizes.weight_bytes, sizes.kv_bytes


def changed(spec: Spec, changes: Changes) -> Spec:
    """The spec with values at dotted paths replaced."""
    data = spec_to_data(spec)
    for path, value in changes.items():
        *parents, last = path.split(".")
        target = data
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
        if last == "slice":
            target.pop("slices", None)
            target["slices"] = [target.pop("slice")]
    return spec_from_data(data)


def limit_changes(infeasible: Infeasible) -> Iterator[Changes]:
    """Each limit of the conflict relaxed to what is needed, rounded up to a microsecond."""
    for need in infeasible.conflict:
        if need.limit == "fleet_chips":
            yield {"hardware.fleet_chips": need.need}
        elif need.limit != "hbm":
            microseconds = -(-need.need // 1000)
            yield {f"limits.{need.limit}": f"{microseconds / 1000:.3f} ms"}


def chunk_changes(spec: Spec, infeasible: Infeasible) -> Iterator[Changes]:
    """Prompts read in chunks, where HBM is short and packages are not asked for."""
    serving, pinned = spec.serving, "prefill.chunk" in spec.pins
    short = any(need.limit == "hbm" for need in infeasible.conflict)
    if short and serving.chunked_prefill is None and serving.strategies == "all" and not pinned:
        yield {"serving.chunked_prefill": "auto"}


def larger_slices(spec: Spec) -> list[str]:
    """The legal slices with more chips than the spec allows, smallest first, most square first among equals."""
    machine_chip = chip(spec.hardware.chip)
    most = max(parse_slice(machine_chip, text).chips for text in spec.hardware.slices)
    larger = [each for each in legal_slices(machine_chip, most * LARGEST_FACTOR) if each.chips > most]
    by_chips = {each.chips: each for each in sorted(larger, key=lambda each: -max(each.shape))}
    return [str(by_chips[chips]) for chips in sorted(by_chips)]


def slice_changes(spec: Spec) -> Iterator[Changes]:
    """A larger slice, and nothing else."""
    if "slice" not in spec.pins:
        for text in larger_slices(spec):
            yield {"hardware.slice": text}


def dtype_changes(spec: Spec) -> Iterator[Changes]:
    """int8 weights, on the same slice or on a larger one."""
    if "int8" not in spec.model.weights.allowed:
        yield {"model.weights.dtype": "int8"}
        for change in slice_changes(spec):
            yield {"model.weights.dtype": "int8", **change}


def context_changes(spec: Spec) -> Iterator[Changes]:
    """A shorter context: halved until it fits, not below what a p95 prompt needs."""
    context = spec.workload.max_context // 2
    while context >= max(SHORTEST_CONTEXT, spec.workload.prompt_tokens.p95):
        yield {"workload.max_context": context}
        context //= 2
