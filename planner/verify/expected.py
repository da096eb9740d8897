"""What a plan says of one step: its collectives, and the HBM bytes of its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from planner.plan.chosen import Chosen, chosen_of
from planner.plan.schema import Collective, Plan
from planner.problem.chunks import steps_of
from planner.problem.costs import PART_OF, Parts
from planner.problem.planned import INSERTION
from planner.verify.build import Step
from planner.verify.traffic import COLLECTIVES, ELSEWHERE, Pages


@dataclass(frozen=True)
class Expected:
    """A plan's word on the steps of its package."""

    plan: Plan

    @cached_property
    def chosen(self) -> Chosen:
        """What the plan is priced by."""
        return chosen_of(self.plan)

    def collectives(self, step: Step) -> tuple[Collective, ...]:
        """The collectives of a step; of a prefill without those that bring its prompts to where they are inserted."""
        if step.phase == "generate":
            return self.plan.generate.collectives
        found = self.of_prefill(step.bucket)
        if step.phase == "prefill":
            return tuple(each for each in found if not each.address.startswith(INSERTION))
        if step.phase == "insert" and self.plan.pool is not None:
            return ()
        return tuple(each for each in found if each.address.startswith(INSERTION))

    def of_prefill(self, bucket: int | None) -> tuple[Collective, ...]:
        """The collectives of prompts of a bucket, until all are inserted."""
        if bucket is None or bucket == self.plan.prefill.tokens:
            return self.plan.prefill.collectives
        reads = self.chosen.reads
        return tuple(
            Collective(
                address=each.address,
                kind=each.kind,
                axes=each.axes,
                bytes=each.bytes,
                count=each.repeats,
                seconds=each.repeats * reads.collective_s(each),
            )
            for each in self.chosen.prefill_collectives(bucket)
        )

    def runs(self, step: Step) -> int:
        """How often the program of a step runs for what its collectives are planned for: prefill once for each chunk of
        the bucket and once for each stage, what brings a prompt elsewhere once for each prompt and stage."""
        prefill = self.plan.prefill
        stages = prefill.stages.count if prefill.stages else 1
        if step.phase == "prefill":
            return stages * steps_of(step.bucket or prefill.tokens, prefill.chunk).number
        return prefill.prompts * stages if step.phase != "generate" and self.collectives(step) else 1

    def hbm_bytes(self, step: Step) -> dict[str, int]:
        """HBM bytes of each part of a step; nothing of an insert, of which only collectives are priced."""
        if step.phase in ("hand_over", "insert"):
            return {}
        if step.phase == "generate":
            return read_bytes(self.chosen.generate_parts(), self.chosen)
        reads = self.chosen.reads
        return read_bytes(reads.parts_of_prompt(step.bucket or reads.load.prompt), reads)

    def pages(self, step: Step) -> Pages:
        """What kernels of a step read in one layer on one chip: of the cache at the mean length, or of a prompt."""
        rules, ways, load = self.plan.generate.rules, self.chosen.machine.ways, self.chosen.load
        slots = self.plan.generate.batch // ways(rules.rows) // ways(rules.batch)
        pages = ceil(load.mean_context / self.plan.generate.page_tokens) / ways(rules.kv_tokens)
        chunks = steps_of(step.bucket or self.plan.prefill.tokens, self.plan.prefill.chunk)
        return Pages(slots, pages, chunks.mean_read / chunks.read / self.chosen.machine.sizes.layers)


def read_bytes(parts: Parts, chosen: Chosen) -> dict[str, int]:
    """Parts with the HBM bytes that their prices are of."""
    rate = chosen.machine.chip.hbm_bytes_per_s * chosen.machine.stack.hbm_efficiency
    return {address: round(part.hbm_s * rate) for address, part in parts.items()}


def by_part(found: Mapping[str, int]) -> dict[str, int]:
    """Bytes by address, those of addresses that are one part of the plan's prices added up."""
    total: dict[str, int] = {}
    for address, size in found.items():
        part = part_of(address)
        total[part] = total.get(part, 0) + size
    return total


def part_of(address: str) -> str:
    """The part of a plan's prices that an address belongs to."""
    if address in (ELSEWHERE, COLLECTIVES):
        return address
    phase, _, rest = address.partition(".")
    return f"{phase}.{PART_OF.get(rest, rest)}"
