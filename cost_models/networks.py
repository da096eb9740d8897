"""Seconds over links that are no torus: switches above a GPU's NVLink domain, the data-center network, the host.

A tree of switches is a sequence of `Level`s, lowest first. A collective over the tree runs in every level at once and
takes as long as its slowest level (scaling-book, gpus.md § Collectives beyond the node level). Sums inside the switches
(SHARP) are off unless asked for: few installations have them on, and measured gains stay below the theory.

A stack has an efficiency of the lowest level, inside a domain, and one of the network above, and a cost of every
collective that leaves the domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cost_models.chips import Chip
from cost_models.stacks import BOOK, Stack

NVLINK = "nvlink"


@dataclass(frozen=True, slots=True)
class Level:
    """Switches of one height: each joins `ways` children that send it `bytes_per_s` each, one direction."""

    name: str
    ways: int
    bytes_per_s: float

    @property
    def total_bytes_per_s(self) -> float:
        """What all children of one switch send together, and what a full fat tree passes on above it."""
        return self.ways * self.bytes_per_s

    @property
    def gather_bytes_per_s(self) -> float:
        """Bytes gathered per second: W * D / (D - 1), for a child holds its own share already."""
        return self.bytes_per_s * self.ways / (self.ways - 1)

    def efficiency(self, stack: Stack) -> float:
        """Fraction of the bandwidth that a stack reaches at this height."""
        return stack.ici_efficiency if self.name == NVLINK else stack.network_efficiency


def gpu_levels(chip: Chip) -> tuple[Level, ...]:
    """The NVLink domain of a GPU and the fat tree above it, up to the largest installation of the catalogue."""
    domain = chip.max_chips
    levels = [Level(NVLINK, domain, chip.ici_bytes_per_s)]
    egress = chip.known("dcn_bytes_per_s") * domain
    for name, ways in zip(("leaf", "spine"), chip.network_ways or (), strict=False):
        levels.append(Level(name, ways, egress))
        egress *= ways
    return tuple(levels)


def levels_of(gpus: int, chip: Chip) -> tuple[Level, ...]:
    """The part of `gpu_levels` that `gpus` neighbours use: whole domains, then whole leaves; no level of one child."""
    levels: list[Level] = []
    left = gpus
    for level in gpu_levels(chip):
        ways = min(left, level.ways)
        if left % ways:
            raise ValueError(f"{gpus} GPUs do not fill whole {level.name} groups of {ways}")
        levels.append(Level(level.name, ways, level.bytes_per_s))
        left //= ways
    if left > 1:
        raise ValueError(f"{gpus} GPUs are more than the network of {chip.name} joins")
    return tuple(level for level in levels if level.ways > 1)


def call_s(levels: Sequence[Level], stack: Stack) -> float:
    """Seconds of a collective over `levels` whatever its bytes: the launch, and the call if it leaves its domain."""
    if not levels:
        return 0.0
    leaves = any(level.name != NVLINK for level in levels)
    return stack.collective_launch_s + (stack.network_call_s if leaves else 0.0)


def tree_gather_s(gathered_bytes: float, levels: Sequence[Level], stack: Stack = BOOK) -> float:
    """Seconds until every GPU below `levels` holds all bytes V, or of a reduce-scatter, the same in reverse.

    V * max((D_i - 1) / (D_i * W_i))     (scaling-book, gpus.md § Collectives beyond the node level)
    """
    rates = (level.gather_bytes_per_s * level.efficiency(stack) for level in levels)
    return call_s(levels, stack) + max((gathered_bytes / rate for rate in rates), default=0.0)


def tree_all_reduce_s(
    operand_bytes: float, levels: Sequence[Level], stack: Stack = BOOK, *, sharp: bool = False
) -> float:
    """Seconds to sum operands of V bytes over all GPUs below `levels`.

    a gather twice, or with sums in the switches V / min(W_i)     (scaling-book, gpus.md § In network reductions)
    """
    if sharp:
        rates = (level.bytes_per_s * level.efficiency(stack) for level in levels)
        return call_s(levels, stack) + max((operand_bytes / rate for rate in rates), default=0.0)
    return 2 * tree_gather_s(operand_bytes, levels, stack) - call_s(levels, stack)


def tree_all_to_all_s(global_bytes: float, levels: Sequence[Level], stack: Stack = BOOK) -> float:
    """Seconds of an all-to-all of V bytes over all GPUs below `levels`, none of it summed or merged on the way.

    A child of a level holds V over the groups and children there, and sends (D - 1) / D of what leaves it:
    V * (D - 1) / (D^2 * W) in one level     (scaling-book, gpus.md § AllToAll)
    """
    worst = 0.0
    children = 1
    for level in reversed(levels):
        children *= level.ways
        outside = 1 - 1 / children
        rate = level.bytes_per_s * level.efficiency(stack)
        worst = max(worst, global_bytes * outside / (children * rate))
    return call_s(levels, stack) + worst


def sharded_gather_s(gathered_bytes: float, shard_ways: int, gpus: int, chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to gather V bytes over the outer axis of `gpus`, an inner axis of `shard_ways` Y keeping its shards.

    The Y neighbours of a domain share its way out, so the network sees all their shards at once:
    max(V / (Y * W), V * N / (max(N, Y) * W_node)) with the exact (D - 1) / D     (scaling-book, gpus.md § Quiz 3 Q3)
    """
    domain = min(gpus, chip.max_chips)
    sharing = min(shard_ways, domain)
    groups = max(1, shard_ways // domain)
    node = Level(NVLINK, domain // sharing, chip.ici_bytes_per_s * sharing)
    network = Level("network", gpus // domain // groups, chip.known("dcn_bytes_per_s") * domain * groups)
    return tree_gather_s(gathered_bytes, [level for level in (node, network) if level.ways > 1], stack)


def link_intensity(link_bytes_per_s: float, chip: Chip, compute_dtype: str) -> float:
    """Operations per byte below which a link of W bytes per second binds: C / W (scaling-book, gpus.md § Rooflines)."""
    return chip.flops_per_s(compute_dtype) / link_bytes_per_s


def dcn_s(sent_bytes: float, chip: Chip, chips: int = 1) -> float:
    """Seconds to send bytes from `chips` chips of one slice to another slice: V / (N * W_dcn).

    On a TPU they also cross the host's link at both ends, which binds where it is slower (tpus.md § TPU Networking).
    """
    slowest = min(chip.known("dcn_bytes_per_s"), chip.pcie_bytes_per_s or float("inf"))
    return sent_bytes / (chips * slowest)


def host_s(moved_bytes: float, chip: Chip, chips: int = 1) -> float:
    """Seconds to move bytes between host memory and the HBM of `chips` chips: V / (N * W_pcie) (tpus.md § Q6)."""
    return moved_bytes / (chips * chip.known("pcie_bytes_per_s"))


def megatron_ways_across_domains(
    d_ff: int,
    chip: Chip,
    *,
    activation_bytes_per_element: float,
    compute_dtype: str,
    matmuls: int = 2,
) -> float:
    """Ways of tensor parallelism over NVLink domains of N GPUs up to which an MLP hides its collectives on the network.

    With Y / N domains only (Y - N) / Y of the bytes cross: Y < N + m * F * W_node / (b_a * C)     (gpus.md § Tensor
    Parallelism, where 8 + F / 2475 stands for two H100 nodes)
    """
    domain, egress = chip.max_chips, chip.known("dcn_bytes_per_s") * chip.max_chips
    intensity = link_intensity(egress, chip, compute_dtype)
    return domain + matmuls * d_ff / (activation_bytes_per_element * intensity)
