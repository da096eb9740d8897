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


def table(
    header: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    numeric: tuple[int, ...] = (),
    label: str | None = None,
) -> Html:
    """A table; the columns in `numeric` are right-aligned. One with a label can be scrolled with arrow keys."""

    def cells(name: str, row: tuple[str, ...]) -> Html:
        return joined(
            *(
                element(name, c, class_="number" if i in numeric else None, scope="col" if name == "th" else None)
                for i, c in enumerate(row)
            )
        )

    head = element("thead", element("tr", cells("th", header)))
    body = element("tbody", *(element("tr", cells("td", row)) for row in rows))
    drawn = element("table", head, body)
    return scroller(label, drawn) if label else element("div", drawn, class_="wide")


def section(title: str, *children: str, name: str | None = None) -> Html:
    """A titled section; with a name it can be linked to."""
    heading = element("h2", title, id=name and f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=name and f"{name}-title")


def scroller(label: str, *children: str) -> Html:
    """What may be wider than the window, by itself: it scrolls with fingers and with arrow keys."""
    return element("div", *children, class_="wide", tabindex=0, role="region", aria_label=label)


def folded(summary: str, *children: str, unfolded: bool = False) -> Html:
    """Something to open; on paper it is open."""
    return element("details", element("summary", summary), *children, open="" if unfolded else None)
