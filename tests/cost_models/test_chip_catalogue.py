"""The catalogue of chips: sources, names, and numbers that must not drift."""

import tomllib
from dataclasses import fields
from importlib import resources
from typing import Any

import pytest

from cost_models.chips import Chip, UnknownChip, UnsupportedDtype, chip, chips
from cost_models.stacks import BOOK, CPU, stack, stacks

LABELS = {"kind", "title", "aliases", "name", "slices", "sources", "peak_flops_per_s"}


def rows(file: str) -> list[tuple[str, Any]]:
    """Every leaf of a catalogue file that is not a label, with its dotted path."""

    def walk(path: str, node: Any) -> list[tuple[str, Any]]:
        if isinstance(node, dict) and "value" not in node:
            return [row for key, child in node.items() if key not in LABELS or key in ("slices", "peak_flops_per_s")
                    for row in walk(f"{path}.{key}".lstrip("."), child)]  # fmt: skip
        return [(path, node)]

    return walk("", tomllib.loads(resources.files("cost_models").joinpath(file).read_text(encoding="utf-8")))


@pytest.mark.parametrize(("path", "row"), [pytest.param(*row, id=row[0]) for row in rows("chips.toml")])
def test_every_number_of_a_chip_has_a_source(path: str, row: Any) -> None:
    assert set(row) == {"value", "source"}, f"{path} is a bare value"
    assert len(row["source"]) > 8


@pytest.mark.parametrize(("path", "row"), [pytest.param(*row, id=row[0]) for row in rows("stacks.toml")])
def test_every_number_of_a_stack_has_a_source(path: str, row: Any) -> None:
    assert set(row) == {"value", "source"}, f"{path} is a bare value"
    assert len(row["source"]) > 8


@pytest.mark.parametrize("each", chips(), ids=lambda each: each.name)
def test_a_chip_says_where_each_of_its_numbers_comes_from(each: Chip) -> None:
    numbers = {
        field.name for field in fields(Chip) if field.name not in LABELS and getattr(each, field.name) is not None
    }
    rates = {f"peak_flops_per_s.{dtype}" for dtype in each.peak_flops_per_s}
    assert numbers | rates <= set(each.sources)


def test_the_catalogue_holds_the_chips_of_the_design() -> None:
    assert [each.name for each in chips()] == [
        "v4", "v5e", "v5p", "v6e", "7x", "a100", "h100", "h200", "b200", "gb200", "cpu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("TPU v5e", "v5e"),
        ("v5litepod", "v5e"),
        ("TPU v5 lite", "v5e"),
        ("trillium", "v6e"),
        ("Ironwood", "7x"),
        ("tpu7x", "7x"),
        ("NVIDIA H100", "h100"),
        ("GB200_NVL72", "gb200"),
        ("cpu", "cpu"),
    ],
)
def test_a_chip_is_found_by_its_other_names(alias: str, name: str) -> None:
    assert chip(alias).name == name


def test_no_two_chips_share_a_name() -> None:
    tables = tomllib.loads(resources.files("cost_models").joinpath("chips.toml").read_text(encoding="utf-8"))
    names = [alias for name, table in tables.items() for alias in (name, *table["aliases"])]
    assert len(names) == len(set(names))


def test_an_unknown_chip_suggests_the_closest() -> None:
    with pytest.raises(UnknownChip, match='unknown chip "v5"; did you mean v5p or v5e') as error:
        chip("v5")
    assert error.value.suggestions == ("v5p", "v5e")


def test_a_name_like_no_other_suggests_every_chip() -> None:
    with pytest.raises(UnknownChip, match="gb200 or cpu"):
        chip("abacus")


def test_int8_doubles_the_rate_only_where_the_vendor_says_so() -> None:
    assert chip("v4").flops_per_s("int8") == chip("v4").flops_per_s("bf16")
    assert chip("v5e").flops_per_s("int8") == 2 * chip("v5e").flops_per_s("bf16")


def test_a_dtype_without_a_rate_names_those_that_have_one() -> None:
    with pytest.raises(UnsupportedDtype, match="v5e has no peak rate for fp8; it has bf16, int8, float32"):
        chip("v5e").flops_per_s("fp8")


def test_a_v5e_link_is_one_way_and_not_the_vendor_sum() -> None:
    """The vendor's 400 GB/s is four ports both ways; a line moves one link's 45 GB/s."""
    assert chip("v5e").ici_bytes_per_s == 45e9


def test_a_7x_chip_is_two_devices() -> None:
    assert [each.name for each in chips() if each.devices_per_chip != 1] == ["7x"]


def test_chips_and_stacks_can_be_keys() -> None:
    assert len({*chips(), *chips()}) == len(chips())
    assert {BOOK, CPU} == set(stacks())


def test_an_unknown_stack_names_the_known_ones() -> None:
    with pytest.raises(LookupError, match="known are book, cpu"):
        stack("jetstream")


def test_the_book_adds_nothing_to_the_physics() -> None:
    assert (BOOK.collective_launch_s, BOOK.step_s) == (0, 0)
    assert (BOOK.mxu_efficiency, BOOK.hbm_efficiency, BOOK.ici_efficiency) == (1, 1, 1)
