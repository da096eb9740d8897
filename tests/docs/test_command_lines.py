"""Every `shardwright ...` in a document is one that the command line takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from planner.cli import main
from tests.docs.test_links import PAGES, named

LINE = re.compile(r"(?:^|[ (`])shardwright +([^`\n]*)", re.MULTILINE)
ENDS = re.compile(r"\s(?:\||\|\||&&|&|;|>|2>|2>&1|#)(?:\s|$)|\s\\$|\)|: |;")


def command_lines(page: Path) -> Iterator[str]:
    """What follows `shardwright` in code, up to a pipe, a redirection or a comment. Generated help is left out."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    code = re.findall(r"```.*?```|^    [^\n]*$|`[^`\n]+`", text, re.DOTALL | re.MULTILINE)
    for block in code:
        for found in LINE.findall(block):
            words = ENDS.split(f"{found} ")[0].strip()
            if words:
                yield words


def problem(words: list[str]) -> str | None:
    """What the command line says of these words; arguments may be left out where people talk about a command."""
    name, *rest = words
    if name.startswith("-"):
        return None if name in ("--version", "--help") else f"no option {name}"
    if name not in main.commands:
        return f"no command {name}"
    try:
        main.commands[name].make_context(name, rest, parent=click.Context(main, **main.context_settings))
    except click.MissingParameter:
        return None
    except click.UsageError as error:
        return error.message
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "cli.md"], ids=named)
def test_every_command_line_of_a_document_is_taken(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    for line in command_lines(page):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            pytest.fail(f"{named(page)}: {line}: {error}")
        assert problem(words) is None, f"{named(page)}: shardwright {line}: {problem(words)}"


def test_command_lines_that_are_wrong_are_found() -> None:
    assert problem(["plan", "spec.yaml", "--newer"]) is not None
    assert problem(["plans", "spec.yaml"]) is not None
    assert problem(["show", "plan.yaml", "generate"]) is not None
    assert problem(["show", "plan.yaml", "--format", "xml"]) is not None
    assert problem(["plan"]) is None
