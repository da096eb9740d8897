"""Eight colours that stay apart in light and dark, and for most colour-blind eyes: mesh axes, and series of charts."""

from planner.report.html import Html, element

LIGHT = ("#0969da", "#c2410c", "#1a7f37", "#8250df", "#bf8700", "#cf222e", "#0e7490", "#57606a")
DARK = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#d29922", "#ff7b72", "#39c5cf", "#9198a1")


def variables(colours: tuple[str, ...]) -> str:
    """The colours as variables."""
    return " ".join(f"--s{index}: {colour};" for index, colour in enumerate(colours))


PALETTE_STYLE = f"""
:root {{ {variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}
{" ".join(f".s{index} {{ fill: var(--s{index}); stroke: var(--s{index}); }}" for index in range(len(LIGHT)))}
{" ".join(f".b{index} {{ background: var(--s{index}); }}" for index in range(len(LIGHT)))}
""".strip()


def swatch(index: int, text: str) -> Html:
    """A text behind a square of a colour."""
    return element("span", element("i", class_=f"b{index % len(LIGHT)}"), text, class_="swatch")
