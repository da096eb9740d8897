"""What plans compile to: seconds, collectives as planned, other differences, memory; a row for each phase."""

from pathlib import Path

from planner.plan.make import make_plan
from planner.plan.units import bytes_text, seconds_text
from planner.spec import load_spec
from planner.verify import Audit, verify_plan

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
LAYOUTS = {
    "": [],
    ", 2d and weight-gathered": [
        "pins={generate.attention: 2d, generate.mlp: 2d, "
        "prefill.attention: weight_gathered, prefill.mlp: weight_gathered}"
    ],
    ", sequence-parallel, KV by batch": [
        "pins={prefill.attention: sequence_parallel, prefill.mlp: sequence_parallel, generate.kv_cache: batch}"
    ],
}
CASES = {
    f"{name}{layout}": (f"{name}.yaml", overrides)
    for name in ("smollm2_135m_cpu8", "llama_3_1_8b_v5e_2x4", "llama_3_1_70b_v5e_4x4")
    for layout, overrides in LAYOUTS.items()
}


def print_case(name: str, audit: Audit) -> None:
    """A line for each phase, one for the memory, and one for each difference."""
    for phase in audit.phases:
        matched = sum(row.status == "matched" for row in phase.rows)
        print(f"{name:<56}{phase.phase:<10}{seconds_text(phase.seconds):>10}{f'{matched} of {len(phase.rows)}':>14}")
    if audit.total:
        print(f"    memory: planned {bytes_text(audit.total.planned)}, compiled {bytes_text(audit.total.found)}")
    for difference in audit.differences:
        print(f"    {difference}")


def main() -> None:
    """Print the table."""
    print(f"{'case':<56}{'phase':<10}{'compile':>10}{'as planned':>14}")
    for name, (spec, overrides) in CASES.items():
        print_case(name, verify_plan(make_plan(load_spec(EXAMPLES / spec, overrides))))


if __name__ == "__main__":
    main()
