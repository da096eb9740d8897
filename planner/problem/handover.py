"""The hand-over of keys and values from a slice that reads prompts to one that generates: over which links, how fast.

Slices meet over the data-centre network, each chip through its host. Two slices that are the halves of one legal torus
can be neighbours: then every chip of the face between them sends over its own link. GPUs of one NVLink domain send at
the rate of their links.
"""

from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Literal

from cost_models.chips import Chip
from cost_models.networks import dcn_s
from cost_models.torus import IllegalSlice, Slice, parse_slice
from planner.problem.sizes import Sizes

LinkName = Literal["ici", "dcn"]


@dataclass(frozen=True)
class Link:
    """A way between two slices: nanoseconds a byte, and where it can be used: chips and slices of the fleet at most."""

    name: LinkName
    ns_per_byte: float
    most_chips: int | None = None
    one_each: bool = False


def links(prefill: Slice, generate: Slice, chip: Chip) -> list[Link]:
    """The ways from a prefill slice to a generate slice, the fastest first."""
    found = []
    chips = min(prefill.chips, generate.chips)
    if chip.kind == "gpu":
        found.append(Link("ici", 1e9 / (chips * chip.ici_bytes_per_s), most_chips=chip.max_chips))
    elif face := face_links(prefill, generate, chip):
        found.append(Link("ici", 1e9 / (face * chip.ici_bytes_per_s), one_each=True))
    if chip.dcn_bytes_per_s is not None:
        found.append(Link("dcn", 1e9 * dcn_s(1.0, chip, chips)))
    return sorted(found, key=lambda link: link.ns_per_byte)


def face_links(one: Slice, other: Slice, chip: Chip) -> int:
    """The links of the face between two slices that make up one legal slice; 0 where they do not."""
    faces = [0]
    for turned in permutations(other.shape):
        for axis in range(len(one.shape)):
            beside = [size for at, size in enumerate(one.shape) if at != axis]
            if beside != [size for at, size in enumerate(turned) if at != axis]:
                continue
            joined = [size + (turned[axis] if at == axis else 0) for at, size in enumerate(one.shape)]
            faces.append(prod(beside) if is_legal(joined, chip) else 0)
    return max(faces)


def is_legal(shape: list[int], chip: Chip) -> bool:
    """Whether the chip is sold in a slice of this shape, in some order of its axes."""
    for ordered in permutations(shape):
        try:
            parse_slice(chip, "x".join(map(str, ordered)))
        except IllegalSlice:
            continue
        return True
    return False


def prompt_cache_bytes(sizes: Sizes, tokens: int) -> int:
    """Bytes of the keys and values of one prompt, each sent once; layers with a window send what it covers."""
    return int(sizes.attended(tokens) * sizes.cached_dim * sizes.prefilled_bytes)
