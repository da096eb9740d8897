"""The chart's style sheet, over the palette that every page shares."""

from planner.report.palette import PALETTE_STYLE

CHART_STYLE = f"""
{PALETTE_STYLE}
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
