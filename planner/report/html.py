"""HTML that cannot be broken out of: text is escaped where it becomes a child, and only elements are not."""

from collections.abc import Sequence
from html import escape

VOID = {"meta", "br"}


class Html(str):
    """Text that is HTML already. Only `element` and `joined` make it."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: str | float | None) -> Html:
    """An element; children that are plain text are escaped, `class_` is class, and None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{written}>" if tag in VOID else f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Html:
    """Children one after the other."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], numeric: tuple[int, ...] = ()) -> Html:
    """A table; the columns in `numeric` are right-aligned."""

    def cells(name: str, row: tuple[str, ...]) -> Html:
        return joined(*(element(name, c, class_="number" if i in numeric else None) for i, c in enumerate(row)))

    head = element("thead", element("tr", cells("th", header)))
    body = element("tbody", *(element("tr", cells("td", row)) for row in rows))
    return element("div", element("table", head, body), class_="wide")


def section(title: str, *children: str) -> Html:
    """A titled section."""
    return element("section", element("h2", title), *children)
