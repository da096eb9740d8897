"""The spec: what is to be served, on what, how fast. The field order here is the canonical order of the file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SkipValidation
from pydantic_core import PydanticCustomError

from planner.spec.base import LARGEST_COUNT, Count, Fraction, PartOfOne, Real, Seconds, Section
from planner.spec.diagnostic import shown
from planner.spec.model import Model
from planner.spec.pins import PinValue, read_pins


def _topology(value: object) -> object:
    """A slice that is written as a number, as the text it looks like; whether it is a slice is for the rules."""
    return str(value) if type(value) is int else value


def _chunk(value: object) -> object:
    """How prompts are read, as it is kept: None for whole ones."""
    if value is None or value == "off" or value is False:
        return None
    if value != "auto" and not (type(value) is int and 0 < value <= LARGEST_COUNT):
        problem = f"must be auto, off or a whole number of tokens above 0, not {shown(value)}"
        raise PydanticCustomError("choice", "{problem}", {"problem": problem})
    return value


MOST_DRAFTS = 32

Topology = Annotated[str, BeforeValidator(_topology)]


class Hardware(Section):
    """The chip, and the slices of it that may be used. `slice: 4x4` is short for `slices: [4x4]`."""

    chip: str = Field(min_length=1, description="The accelerator, by its name in the chip catalogue.")
    slices: tuple[Topology, ...] = Field(min_length=1, description="Slice topologies that may be used, such as 4x4.")
    reserve: Fraction = Field(default=0.08, description="Part of HBM kept back for the compiler and the runtime.")
    stack: str = Field(
        default="book", description="Software whose measured constants price the plan; that of the chip when absent."
    )
    price_per_chip_hour: Real | None = Field(default=None, description="What a chip costs an hour, in any currency.")
    fleet_chips: Count | None = Field(
        default=None,
        description="Most chips of all slices together. Without it a request rate may take as many slices as it needs, "
        "and disaggregated serving without a rate as many chips as the largest slice has.",
    )


MOST_SLOTS = 1024


class Tokens(Section):
    """A distribution of token counts."""

    mean: Count = Field(description="Mean number of tokens.")
    p95: Count = Field(description="Number of tokens that 95 % of requests stay within.")


class Workload(Section):
    """What the service is asked to do."""

    prompt_tokens: Tokens = Field(description="Length of prompts.")
    output_tokens: Tokens = Field(description="Length of answers.")
    requests_per_s: Real | None = Field(
        default=None, description="Requests that arrive in a second, at random times; as many slices as they need."
    )
    concurrency: Count = Field(
        description="Sequences in flight that the service must hold, all the time; with requests_per_s the most that a "
        "slice may hold, 1024 when absent."
    )
    max_context: Count = Field(
        default=0, description="Tokens the KV cache of one sequence can hold; p95 prompt + p95 output when absent."
    )

    @classmethod
    def filled(cls, data: dict[str, Any]) -> dict[str, Any]:
        """`data` with the default context, where both of its parts are there, and the default slots of a rate."""
        if data.get("requests_per_s") is not None and "concurrency" not in data:
            data = {**data, "concurrency": MOST_SLOTS}
        parts = [data.get(key) for key in ("prompt_tokens", "output_tokens")]
        counts = [part.get("p95") for part in parts if isinstance(part, dict)]
        whole = [count for count in counts if type(count) is int and count > 0]
        return {"max_context": sum(whole), **data} if len(whole) == 2 else data


class Limits(Section):
    """Service-level objectives; absent for none. `tpot: {mean: 30 ms, p95: 40 ms}` stands for `tpot` and `tpot_p95`."""

    ttft_s: Seconds | None = Field(default=None, alias="ttft", description="Mean time to first token (s).")
    ttft_p95_s: Seconds | None = Field(
        default=None, alias="ttft_p95", description="Time to first token that 95 % of requests stay within (s)."
    )
    tpot_s: Seconds | None = Field(default=None, alias="tpot", description="Mean time per output token (s).")
    tpot_p95_s: Seconds | None = Field(
        default=None, alias="tpot_p95", description="Time per output token that 95 % of requests stay within (s)."
    )


class Speculation(Section):
    """A draft model that proposes tokens, which generate steps may verify."""

    drafted_tokens: Annotated[int, Field(strict=True, gt=0, le=MOST_DRAFTS)] = Field(
        description="Tokens drafted for every step of the model."
    )
    acceptance: Fraction = Field(description="How likely a draft is accepted if those before it were.")
    draft_step_s: Seconds = Field(alias="draft_step", description="Time to draft one token of every sequence (s).")


class Serving(Section):
    """How prefill and generate share chips."""

    mode: Literal["auto", "interleaved", "disaggregated"] = Field(
        default="interleaved",
        description="Both phases take turns on each slice, or each phase has slices of its own; auto takes the better.",
    )
    max_utilization: PartOfOne | None = Field(
        default=None,
        description="Most of the time that prefill may keep a slice busy under requests_per_s; 0.9 when absent.",
    )
    strategies: Literal["all", "rendered"] = Field(
        default="all",
        description="Every strategy that can be planned, or those that packages are rendered for: all but drafts.",
    )
    chunked_prefill: Annotated[Literal["auto"] | int | None, BeforeValidator(_chunk)] = Field(
        default=None,
        description="Tokens of a prompt that prefill reads at a time; auto lets the solver choose, off (the default) "
        "reads whole prompts.",
    )
    speculation: Speculation | None = Field(
        default=None, description="A draft model; the solver chooses whether generate steps verify what it proposes."
    )


class Spec(Section):
    """Everything a plan is made from."""

    version: int = Field(strict=True, ge=1, le=1, description="Version of the spec format: 1.")
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="A name for the plan: letters, digits, dot, dash, underscore.",
    )
    model: Model = Field(description="The model to serve.")
    hardware: Hardware = Field(description="What it may run on.")
    workload: Workload = Field(description="What it is asked to do.")
    limits: Limits = Field(default=Limits(), description="How fast it has to be.")
    serving: Serving = Field(default=Serving(), description="How the phases share chips.")
    objective: Literal["cost", "throughput", "latency"] = Field(
        default="cost", description="What the best plan is best at."
    )
    pins: Annotated[Mapping[str, SkipValidation[PinValue]], BeforeValidator(read_pins)] = Field(
        default={}, description="Choices that are already made, by plan address."
    )

    @classmethod
    def filled(cls, data: dict[str, Any]) -> dict[str, Any]:
        """`data` with the default stack of the chip and the kind of model, where the chip is known."""
        from cost_models.stacks import default_stack

        hardware, model = data.get("hardware"), data.get("model")
        if not isinstance(hardware, dict) or "stack" in hardware:
            return data
        experts = isinstance(model, dict) and model.get("moe") is not None
        try:
            stack = default_stack(str(hardware.get("chip")), experts=experts).name
        except LookupError:
            return data
        return {**data, "hardware": {**hardware, "stack": stack}}
