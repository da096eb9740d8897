"""What the page of a plan adds to the style sheet that pages share: drawings, narrow windows, and paper."""

PLAN_STYLE = """
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 8px 0; border-bottom: 1px solid var(--line);
  font-size: 14px; } a { color: var(--hbm); } a:focus-visible, summary:focus-visible, .wide:focus-visible,
pre:focus-visible { outline: 2px solid var(--hbm); outline-offset: 2px; border-radius: 3px; }
section { scroll-margin-top: 8px; } .tile span { display: block; font-size: 13px; color: var(--soft); }
.beside { display: grid; gap: 8px 32px; align-items: start;
  grid-template-columns: minmax(0, max-content) minmax(280px, 1fr); }
.beside > * { min-width: 0; } .swatch { white-space: nowrap; margin-right: 10px; }
.swatch i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; }
span.late, b.late { color: var(--late); font-weight: 600; } svg .late { fill: var(--late); }
.warning { border-left: 4px solid var(--logits); padding-left: 10px; }
:root { --late: #b42318; --on-mark: #ffffff; }
svg.torus { max-width: max(100%, 560px); display: block; } svg.torus.deep { max-width: 100%; }
.torus .link { stroke-width: 4; fill: none; }
.torus .ring { stroke-dasharray: 4 3; } .torus .chip { fill: var(--panel); stroke: var(--soft); }
.torus circle.chip { fill: var(--ink); stroke: var(--paper); stroke-width: 1.5; }
.pair svg { max-width: none; } svg.plot { display: block; width: 100%; min-width: 600px; max-width: 1000px; }
.plot text { font-size: 12px; } .plot .grid { stroke: var(--line); } .plot .title { font-weight: 600; }
.plot .told { font-weight: 600; } .plot .roof { fill: none; stroke: var(--ink); stroke-width: 2; }
.plot .lead { stroke: var(--soft); } .plot .point { fill: var(--ink); }
.plot .mark .compute { fill: var(--compute); } .plot .mark .hbm_ { fill: var(--hbm); }
.plot .mark .ici { fill: var(--ici); } .plot .mark .fixed { fill: var(--fixed); }
.plot .mark .number { fill: var(--on-mark); font-size: 11px; font-weight: 600; }
.plot .curve { fill: none; stroke-width: 2; } .plot .tail { stroke-dasharray: 3 4; }
.plot .limit { stroke: var(--s5); stroke-width: 1.5; stroke-dasharray: 6 4; }
.plot .bound { fill: var(--s5); } .plot .ring { fill: none; stroke: var(--ink); stroke-width: 2; }
.plot .edge { stroke: var(--soft); stroke-dasharray: 2 4; } .plot .none { stroke: var(--line); stroke-width: 14; }
@media screen and (prefers-color-scheme: dark) { :root { --late: #ff9b8f; --on-mark: #0d1117; } }
@media (max-width: 980px) { .beside { grid-template-columns: minmax(0, 1fr); } }
@media screen and (max-width: 760px) { body { padding: 14px; }
  .pair { grid-template-columns: minmax(0, 1fr); } h1 { font-size: 22px; overflow-wrap: anywhere; }
  svg.plot, svg.sweep { min-width: 480px; } .plot text, .sweep text { font-size: 13.5px; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(135px, 1fr)); } li, p { overflow-wrap: anywhere; }
  #batches td, #frontier td, #roofline td, .wide th { white-space: nowrap; } }
.said { min-width: 320px; white-space: normal; } #where details td,
#frontier td:first-child { white-space: nowrap; }
@media print { :root { color-scheme: light; } body { padding: 0; max-width: none; font-size: 11px; }
  nav { display: none; } summary { list-style: none; } .wide, pre { overflow: visible; } pre { white-space: pre-wrap; }
  h1 { font-size: 18px; } h2 { font-size: 14px; margin-top: 20px; } h3 { font-size: 12px; } .tile b { font-size: 14px; }
  table, .parts, .legend, .tile span { font-size: 9.5px; } code, pre, .mono { font-size: 8.5px; }
  th, td { padding-right: 7px; white-space: normal; } td.number { white-space: nowrap; } .said { min-width: 0; }
  td code { overflow-wrap: anywhere; } .number { overflow-wrap: normal; }
  svg.torus, .pair svg, svg.plot, svg.sweep { max-width: 100%; min-width: 0; height: auto; }
  .pair { grid-template-columns: minmax(0, 1fr); } h2, h3 { break-after: avoid; }
  svg, tr, .tile { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } i { print-color-adjust: exact; } }
""".strip()
