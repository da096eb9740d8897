"""Every folder of `cases` is a spec that is wrong, and the exact text that says so."""

from pathlib import Path

import pytest

from planner.spec import SpecErrors, load_spec

CASES = Path(__file__).parent / "cases"


def overrides_of(case: Path) -> list[str]:
    path = case / "overrides.txt"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("case", [pytest.param(path, id=path.name) for path in sorted(CASES.iterdir())])
def test_a_wrong_spec_prints_what_is_expected(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    with pytest.raises(SpecErrors) as caught:
        load_spec(Path("spec.yaml"), overrides_of(case))
    assert f"{caught.value}\n" == (case / "expected.txt").read_text()


def test_five_mistakes_give_five_diagnostics_with_their_lines() -> None:
    with pytest.raises(SpecErrors) as caught:
        load_spec(CASES / "five_mistakes" / "spec.yaml")
    found = [(diagnostic.position.line, diagnostic.rule) for diagnostic in caught.value.diagnostics]
    assert found == [
        (9, "unknown-key"),
        (13, "choice"),
        (16, "slice-shape"),
        (18, "prompt-p95-below-mean"),
        (22, "unit"),
    ]


def test_a_rule_still_speaks_where_another_part_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    text = (CASES / "lengths" / "spec.yaml").read_text()
    path.write_text(text.replace("prompt_tokens: {mean: 2048, p95: 1024}", "prompt_tokens: {mean: 2048, p95: many}"))
    with pytest.raises(SpecErrors) as caught:
        load_spec(path)
    assert [diagnostic.rule for diagnostic in caught.value.diagnostics] == ["type", "output-p95-below-mean"]
