"""Rules about how a model is served: request rates, fleets, chunks, drafts, and meshes that both phases share."""

from collections.abc import Iterator

from planner.spec.finding import Finding
from planner.spec.nearest import nearest, nearest_few
from planner.spec.pins import pin_problem
from planner.spec.schema import Spec


def tail_without_rate(spec: Spec) -> Iterator[Finding]:
    """A limit on a tail has a request rate: requests that come one after the other do not queue."""
    for name, value in (("ttft_p95", spec.limits.ttft_p95_s), ("tpot_p95", spec.limits.tpot_p95_s)):
        if value is not None and spec.workload.requests_per_s is None:
            message = f"{name} bounds a tail, which there is only with requests that arrive at random"
            yield Finding(("limits", name), message, "set workload.requests_per_s, or bound the mean")


def rate_objective(spec: Spec) -> Iterator[Finding]:
    """At a given request rate the question is how many chips it takes: throughput is given, latency can be bought."""
    if spec.workload.requests_per_s is None:
        return
    if spec.objective == "throughput":
        message = (
            "objective throughput asks for as many requests as possible, and requests_per_s says how many there are"
        )
        yield Finding(("objective",), message, "use objective: cost, or concurrency instead of requests_per_s")
    if spec.objective == "latency":
        message = "objective latency with requests_per_s is better the more slices there are"
        yield Finding(("objective",), message, "use objective: cost, and bound latency by limits.ttft and limits.tpot")


def fleet_below_slice(spec: Spec) -> Iterator[Finding]:
    """The fleet may have the chips of one slice at least."""
    from cost_models.chips import UnknownChip, chip
    from cost_models.torus import IllegalSlice, parse_slice

    most = spec.hardware.fleet_chips
    try:
        smallest = min(parse_slice(chip(spec.hardware.chip), each).chips for each in spec.hardware.slices)
    except (UnknownChip, IllegalSlice):
        return
    if most is not None and most < smallest:
        message = f"fleet_chips is {most}, and the smallest slice has {smallest} chips"
        yield Finding(("hardware", "fleet_chips"), message, f"use {smallest} or more, or allow smaller slices")


def chunks_of_a_fleet(spec: Spec) -> Iterator[Finding]:
    """Prompts are read in chunks between the steps of one slice that takes turns, and serves clients that come back."""
    pinned = spec.pins.get("prefill.chunk", "none") != "none"
    if spec.serving.chunked_prefill is None and not pinned:
        return
    path = ("pins", "prefill.chunk") if pinned else ("serving", "chunked_prefill")
    hint = f"leave {path[1]} out, or use concurrency and mode: interleaved"
    if spec.workload.requests_per_s is not None:
        yield Finding(path, "chunks are not planned yet for requests that arrive at random", hint)
    elif spec.serving.mode != "interleaved":
        yield Finding(path, f"chunks are not planned yet for mode {spec.serving.mode}", hint)


def mesh_of_phases(spec: Spec) -> Iterator[Finding]:
    """The pinned mesh is one of a slice that may be used, and the same in both phases."""
    pins = {address: spec.pins[address] for address in ("generate.mesh", "prefill.mesh") if address in spec.pins}
    meshes = {address: value for address, value in pins.items() if not pin_problem(address, value)}  # told by `pin`
    for address in meshes:
        if spec.serving.mode != "interleaved":
            message = f"{address} is for slices that take turns, and mode is {spec.serving.mode}"
            yield Finding(("pins", address), message, "use mode: interleaved, or leave the pin out", on_key=True)
            return
        if problem := mesh_problem(spec, address):
            yield Finding(("pins", address), problem[0], problem[1])
            return
    if len({frozenset(value) for value in meshes.values() if isinstance(value, tuple)}) > 1:
        message = "generate.mesh and prefill.mesh differ, and both phases take turns on one mesh"
        yield Finding(("pins", "prefill.mesh"), message, "pin one of them")


def mesh_problem(spec: Spec, address: str) -> tuple[str, str | None] | None:
    """Why the mesh that is pinned at an address is none of the slices that may be used, and the nearest that is."""
    from cost_models.chips import UnknownChip, chip
    from cost_models.meshes import all_meshes, axis_texts, meshes_named
    from cost_models.torus import IllegalSlice, parse_slice

    value, pinned = spec.pins[address], spec.pins.get("slice")
    texts = (str(pinned),) if pinned is not None else spec.hardware.slices
    try:
        slices = [parse_slice(chip(spec.hardware.chip), text) for text in texts]
    except (UnknownChip, IllegalSlice):
        return None
    if not isinstance(value, tuple) or any(meshes_named(s, value) for s in slices):
        return None
    known = [f"[{', '.join(axis_texts(mesh))}]" for each in slices for mesh in all_meshes(each)]
    written = f"[{', '.join(value)}]"
    close = nearest(written, known) or nearest_few(written, known)[0]
    return f"{address}: {written} is no mesh of {spec.hardware.chip} {' or '.join(texts)}", f"did you mean {close}?"


def speculation_pin(spec: Spec) -> Iterator[Finding]:
    """Drafts are pinned only where there is a draft model."""
    if spec.pins.get("generate.speculation") == "on" and spec.serving.speculation is None:
        message = "generate.speculation cannot be on: serving.speculation does not say what drafts cost"
        yield Finding(("pins", "generate.speculation"), message, "add serving.speculation, or leave the pin out")
