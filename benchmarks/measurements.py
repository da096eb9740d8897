"""A measurements file as cases ready to be priced, and the reason of each row that cannot be."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from case import Case
from collective_cases import collective_case
from models import Skipped
from ruamel.yaml import YAML
from step_cases import step_case

from cost_models.chips import UnknownChip

DEFAULT_FILE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "measurements.yaml"


def load_rows(path: Path) -> list[dict[str, Any]]:
    """The raw cases of a file."""
    rows = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return list(rows)


def read(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Case], dict[str, str]]:
    """The cases that can be priced, and the reason of each that cannot, by id."""
    cases: list[Case] = []
    skipped: dict[str, str] = {}
    for row in rows:
        try:
            if row["phase"] != "memory":
                cases.append(collective_case(row) if row["phase"] == "collective" else step_case(row))
        except Skipped as reason:
            skipped[row["id"]] = str(reason)
        except UnknownChip as missing:
            skipped[row["id"]] = f"chip {missing.name} is not in the catalogue"
    return cases, skipped
