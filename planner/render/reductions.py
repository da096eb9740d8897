"""How partial sums are added up in a step, as the plan lists it."""

from dataclasses import dataclass, replace

from planner.plan.schema import Collective
from planner.render.axes import Axes, without


@dataclass(frozen=True)
class Reduction:
    """How partial sums over d_model are added up: rows scattered, or summed everywhere, then cut locally."""

    value: str
    group: str
    scattered: Axes = ()
    summed: Axes = ()
    sliced: Axes = ()

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls of the package's collectives, each of which turns `value` into the next `value`."""
        steps = (("reduce_scatter_rows", "SCATTERED"), ("all_reduce", "SUMMED"), ("own_slice", "SLICED"))
        return tuple(
            f"{call}({self.value}, sharding.{self.group}_{part})" for call, part in steps if getattr(self, part.lower())
        )


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds, three digits."""
    return f"{seconds * 1e3:.3g}"


def reduction(planned: tuple[Collective, ...], address: str, d_model: Axes, rows: Axes) -> Reduction:
    """The reduction at `address` over `d_model`, scattering those axes of `rows` for which the plan says so."""
    value = address.rpartition(".")[2]
    group = value.upper() if address.startswith("generate") else f"PREFILL_{value.upper()}"
    kinds = {c.axes: c.kind for c in planned if c.address == address}
    scattered = tuple(axis for axis in rows if kinds.get((axis,)) == "reduce_scatter")
    return Reduction(value, group, scattered, summed=without(d_model, scattered), sliced=without(rows, scattered))


def hidden_reduction(planned: tuple[Collective, ...], address: str, d_model: Axes) -> Reduction:
    """As `reduction`, for an MLP's hidden rows, which all chips need again when they are not scattered."""
    return replace(reduction(planned, address, d_model, d_model), sliced=())


def named(found: Reduction, value: str, group: str) -> Reduction:
    """The reduction of another `value`, with `group` before the names of its axes."""
    return replace(found, value=value, group=group)
