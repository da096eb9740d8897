"""The page's style sheet: one palette for light and one for dark backgrounds, system fonts, nothing loaded."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --panel: #f6f8fa; --line: #d0d7de;
  --compute: #c2410c; --hbm: #0969da; --ici: #1a7f37; --fixed: #8250df; --weights: #0969da; --kv_cache: #1a7f37;
  --activations: #c2410c; --logits: #bf8700; --reserve: #8c959f; --free: #e4e8ec; --box: #ddf4ff; --store: #fff8c5; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117;
  --panel: #161b22; --line: #3d444d;
  --compute: #f0883e; --hbm: #58a6ff; --ici: #3fb950; --fixed: #bc8cff; --weights: #58a6ff;
  --kv_cache: #3fb950; --activations: #f0883e; --logits: #d29922; --reserve: #6e7681; --free: #262c36;
  --box: #12304f; --store: #3a2f0b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1180px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 10px; padding-bottom: 4px;
  border-bottom: 1px solid var(--line); } h3 { font-size: 16px; margin: 18px 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); } code, pre, .mono { font-family: ui-monospace, "DejaVu Sans Mono",
  Menlo, Consolas, monospace; font-size: 13px; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px; overflow-x: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 600; } th, td { padding: 3px 14px 3px 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } .number { text-align: right; white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 18px 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
.tile b { display: block; font-size: 20px; } .pair { display: grid; gap: 28px;
  grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); } .pair > * { min-width: 0; }
.mesh { display: grid; gap: 6px; overflow-x: auto; padding-bottom: 4px; } .chip { border: 1px solid var(--line);
  border-radius: 6px; background: var(--panel); padding: 5px 8px;
  font-size: 12px; line-height: 1.35; min-width: 118px; }
.chip b { font-size: 13px; } .chip .phase { color: var(--soft); margin-top: 3px; }
.bar { display: flex; height: 16px; border-radius: 3px; overflow: hidden; } .bar i { display: block; height: 100%; }
.hidden { display: flex; height: 4px; margin-top: 2px; opacity: 0.45; } .hidden i { display: block; height: 100%; }
.parts { display: grid; grid-template-columns: max-content 1fr max-content max-content; gap: 6px 12px;
  align-items: center; font-size: 14px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; color: var(--soft); margin: 8px 0; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; }
.hbm { height: 26px; } .hbm i { border-right: 1px solid var(--paper); }
.compute { background: var(--compute); } .hbm_ { background: var(--hbm); } .ici { background: var(--ici); }
.fixed { background: var(--fixed); } .weights { background: var(--weights); } .kv_cache { background: var(--kv_cache); }
.copies { background: var(--weights); opacity: 0.6; }
.activations { background: var(--activations); } .logits { background: var(--logits); }
.reserve { background: var(--reserve); } .free { background: var(--free); }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, "Liberation Sans", sans-serif; }
svg .soft { fill: var(--soft); font-size: 12px; } svg .part { fill: var(--box); stroke: var(--hbm); }
svg .store { fill: var(--store); stroke: var(--logits); }
svg .flow { stroke: var(--soft); stroke-width: 1.5; fill: none; }
svg .head { fill: var(--soft); } svg .talk { fill: var(--ici); font-size: 12px; }
svg .layer { fill: none; stroke: var(--line); stroke-dasharray: 5 4; }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
""".strip()
