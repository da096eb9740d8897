"""The chart's style sheet: eight colours that stay apart in light and dark, and for most colour-blind eyes."""

LIGHT = ("#0969da", "#c2410c", "#1a7f37", "#8250df", "#bf8700", "#cf222e", "#0e7490", "#57606a")
DARK = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#d29922", "#ff7b72", "#39c5cf", "#9198a1")


def variables(colours: tuple[str, ...]) -> str:
    """The colours as variables."""
    return " ".join(f"--s{index}: {colour};" for index, colour in enumerate(colours))


CHART_STYLE = f"""
:root {{ {variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}
{" ".join(f".s{index} {{ fill: var(--s{index}); stroke: var(--s{index}); }}" for index in range(len(LIGHT)))}
svg.sweep {{ display: block; width: 100%; min-width: 600px; max-width: 1000px; margin: 14px 0; }}
.sweep text {{ fill: var(--ink); font: 12px system-ui, "Liberation Sans", sans-serif; }}
.sweep .soft {{ fill: var(--soft); }}
.sweep .off {{ fill: var(--paper); stroke-width: 1.5; opacity: 0.75; }}
.sweep .grid {{ stroke: var(--line); stroke-width: 1; }}
.sweep .front {{ stroke: var(--soft); stroke-width: 1.5; fill: none; }}
.sweep .limit {{ stroke: var(--s5); stroke-width: 1.5; stroke-dasharray: 6 4; }} .sweep .bound {{ fill: var(--s5); }}
.sweep .ring {{ fill: none; stroke: var(--ink); stroke-width: 2; }}
.sweep .batch {{ fill: var(--soft); font-size: 11px; }} .sweep .paper {{ fill: var(--paper); }}
""".strip()

SVG_COLOURS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; } }
""".strip()
