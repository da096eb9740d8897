"""The catalogue of accelerators: one `Chip` per table of chips.toml, every number with its source."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal["tpu", "gpu", "cpu"]
WrapRule = Literal["axis_of_16", "multiples_of_4", "never", "switch"]


class UnknownChip(LookupError):
    """No chip of this name; the message suggests the closest ones."""

    def __init__(self, name: str, suggestions: tuple[str, ...]) -> None:
        self.name = name
        self.suggestions = suggestions
        super().__init__(f'unknown chip "{name}"; did you mean {" or ".join(suggestions)}?')


class UnsupportedDtype(LookupError):
    """A chip has no peak rate for this compute dtype."""

    def __init__(self, chip_name: str, dtype: str, supported: tuple[str, ...]) -> None:
        self.dtype = dtype
        self.supported = supported
        super().__init__(f"{chip_name} has no peak rate for {dtype}; it has {', '.join(supported)}")


class UnknownNumber(LookupError):
    """The catalogue has no such number for a chip, because no source prints it."""

    def __init__(self, chip_name: str, field_name: str) -> None:
        self.field_name = field_name
        super().__init__(f"the catalogue has no {field_name} for {chip_name}")


@dataclass(frozen=True, slots=True)
class Chip:
    """One accelerator. Rates are per second, sizes in bytes, times in seconds; `sources` says where each is printed."""

    name: str
    kind: Kind
    title: str
    peak_flops_per_s: Mapping[str, float] = field(hash=False)
    """Operations per second by compute dtype, two per multiply-add."""
    hbm_bytes: int
    hbm_bytes_per_s: float
    ici_bytes_per_s: float
    """One link, one direction; on a GPU what it sends into its NVLink switch."""
    ici_hop_s: float
    torus_dims: int
    wrap_rule: WrapRule
    max_slice: tuple[int, ...]
    slices: tuple[tuple[int, ...], ...] | None
    """Shapes that may be ordered, apart from the multiples a wrap rule allows; None when any shape may."""
    host_shape: tuple[int, ...]
    devices_per_chip: int
    """Devices that JAX shows for one chip; each owns an equal part of the chip."""
    mxu_dim: int
    """Edge of the matrix unit; weight dimensions are padded to a multiple of it."""
    cores_per_chip: int | None = None
    """Tensor cores of a TPU, streaming multiprocessors of a GPU."""
    mxus_per_core: int | None = None
    """Matrix units of a core; on a GPU its tensor cores."""
    vector_lanes_per_core: int | None = None
    """Elements that the vector units of a core work on in one cycle."""
    clock_hz: float | None = None
    vmem_bytes: int | None = None
    """On-chip memory that a kernel fills itself: VMEM, or the shared memory of a GPU."""
    vmem_bytes_per_s: float | None = None
    intra_chip_bytes_per_s: float | None = None
    """Between the devices of one chip, one direction."""
    dcn_bytes_per_s: float | None = None
    """The chip's part of the network beyond its slice or NVLink domain, one direction."""
    pcie_bytes_per_s: float | None = None
    """The chip's link to its host's memory, one direction."""
    host_dram_bytes: int | None = None
    network_ways: tuple[int, ...] | None = None
    """GPUs only: NVLink domains below one leaf of the network, leaves below the spine, and so on."""
    price_usd_per_chip_hour: float | None = None
    """A list price; its source says of when."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def switched(self) -> bool:
        """Whether chips talk through one switch rather than over torus links."""
        return self.wrap_rule == "switch"

    @property
    def chips_per_host(self) -> int:
        """Chips that one host drives."""
        count = 1
        for side in self.host_shape:
            count *= side
        return count

    @property
    def max_chips(self) -> int:
        """Chips of the largest slice."""
        count = 1
        for side in self.max_slice:
            count *= side
        return count

    @property
    def egress_bytes_per_s(self) -> float:
        """What one chip can send over all of its links at once: two for each torus axis, or into its switch."""
        return self.ici_bytes_per_s * (1 if self.switched else 2 * self.torus_dims)

    @property
    def dcn_bytes_per_s_per_host(self) -> float | None:
        """What one host sends into the data-center network for all of its chips."""
        return None if self.dcn_bytes_per_s is None else self.dcn_bytes_per_s * self.chips_per_host

    def known(self, field_name: str) -> float:
        """The number in an optional field, or `UnknownNumber` when the catalogue leaves it out."""
        value: float | None = getattr(self, field_name)
        if value is None:
            raise UnknownNumber(self.name, field_name)
        return value

    def flops_per_s(self, dtype: str) -> float:
        """Peak operations per second when computing in `dtype`."""
        try:
            return self.peak_flops_per_s[dtype]
        except KeyError:
            raise UnsupportedDtype(self.name, dtype, tuple(self.peak_flops_per_s)) from None


def chip(name: str) -> Chip:
    """The chip called `name`, or known under it: `v5e`, `TPU v5e`, `v5litepod`."""
    found = _by_alias().get(_normal(name))
    if found is None:
        raise UnknownChip(name, _closest(name))
    return found


@cache
def chips() -> tuple[Chip, ...]:
    """Every chip of the catalogue, in the catalogue's order."""
    return tuple(_chip(name, table) for name, table in _catalogue().items())


def parse_shape(text: str) -> tuple[int, ...] | None:
    """The sides written as `4x8`, or None when `text` is not written so."""
    sides = text.strip().lower().split("x")
    if not all(side.isascii() and side.isdigit() and int(side) > 0 for side in sides):
        return None
    return tuple(int(side) for side in sides)


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath("chips.toml").read_text(encoding="utf-8"))


@cache
def _by_alias() -> dict[str, Chip]:
    named = {each.name: each for each in chips()}
    return {_normal(alias): named[name] for name, table in _catalogue().items() for alias in (name, *table["aliases"])}


def _normal(name: str) -> str:
    """`name` without case, spaces, underscores or the word TPU or NVIDIA in front."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    for vendor in ("tpu", "nvidia"):
        plain = plain.removeprefix(vendor).lstrip("-")
    return plain


def _closest(name: str) -> tuple[str, ...]:
    """At most three catalogue names that resemble `name`, or all of them."""
    aliases = difflib.get_close_matches(_normal(name), _by_alias(), n=3, cutoff=0.6)
    names = tuple(dict.fromkeys(_by_alias()[alias].name for alias in aliases))
    return names or tuple(each.name for each in chips())


def _chip(name: str, table: dict[str, Any]) -> Chip:
    """The chip that a table of chips.toml describes, values and sources apart."""
    labels = {"aliases", "kind", "title", "peak_flops_per_s"}
    rows = {key: row for key, row in table.items() if key not in labels}
    rates = table["peak_flops_per_s"]
    sources = {key: row["source"] for key, row in rows.items()}
    sources |= {f"peak_flops_per_s.{dtype}": row["source"] for dtype, row in rates.items()}
    values: dict[str, Any] = {key: _value(row) for key, row in rows.items()}
    slices = values.pop("slices", None)
    return Chip(
        name=name,
        kind=table["kind"],
        title=table["title"],
        peak_flops_per_s=MappingProxyType({dtype: float(row["value"]) for dtype, row in rates.items()}),
        slices=None if slices is None else tuple(parse_shape(shape) or () for shape in slices),
        sources=MappingProxyType(sources),
        **values,
    )


def _value(row: dict[str, Any]) -> object:
    value = row["value"]
    return tuple(value) if isinstance(value, list) else value
