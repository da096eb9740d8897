"""What each command does: call the parts, print the result, return the exit code."""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from planner import console
from planner.console import DONE, INFEASIBLE, NO
from planner.errors import CannotRun
from planner.spec import check_spec, diagnostics_to_json, format_diagnostics, load_with_lines, spec_to_yaml

if TYPE_CHECKING:
    from planner.plan.make import Solved
    from planner.plan.schema import Plan
    from planner.report.html import Html

if TYPE_CHECKING:
    from planner.sweep.schema import AgainstName, LatencyName

JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def check_command(path: Path, overrides: tuple[str, ...], resolved: bool, style: str) -> int:
    """Diagnostics of a spec; with `resolved`, the spec as it is understood."""
    spec, diagnostics = check_spec(path, overrides)
    if style == "json":
        print(diagnostics_to_json(diagnostics))
    elif diagnostics:
        print(format_diagnostics(diagnostics))
    elif not resolved:
        print(f"{path}: no errors")
    if spec is None:
        return NO
    if resolved:
        print(spec_to_yaml(spec), end="")
    return DONE


@dataclass(frozen=True)
class PlanRequest:
    """What `plan` is asked for besides a spec."""

    written: Path | None = None
    ledger: Path | None = None
    near: Path | None = None
    within: str | None = None


def plan_command(path: Path, overrides: tuple[str, ...], style: str, wanted: PlanRequest) -> int:
    """Solve a spec; write and print the plan, and the ledger of the search."""
    refuse_overwriting(path, wanted)
    spec, lines = load_with_lines(path, overrides)
    from planner.plan.file import plan_to_yaml, write_text
    from planner.plan.make import plan_of, solve_spec
    from planner.plan.near import read_earlier
    from planner.plan.show import show_plan

    if wanted.within is not None and wanted.near is None:
        raise CannotRun("--within says how far from the optimum a plan --near another may be; give --near PLAN")
    near = None if wanted.near is None else read_earlier(wanted.near, wanted.within)
    solved, written = solve_spec(spec, near), wanted.written
    if wanted.ledger is not None:
        write_ledger(wanted.ledger, solved)
    plan = plan_of(solved, near, lines)
    if written is not None:
        write_text(written, plan_to_yaml(plan))
        console.complain(f"wrote {written}")
    if style == "json":
        print(plan.model_dump_json(indent=2, exclude_none=True))
    else:
        show_plan(plan, console.output())
    return DONE


def refuse_overwriting(spec: Path, wanted: PlanRequest) -> None:
    """No output may be the spec itself, and the ledger not the plan."""
    for option, file, name in (("-o", wanted.written, "plan.yaml"), ("--ledger", wanted.ledger, "ledger.jsonl")):
        if file is not None and file.exists() and file.samefile(spec):
            raise CannotRun(f"{file} is the spec itself; give {option} another file, such as {spec.stem}.{name}")
    if wanted.written is not None and wanted.written == wanted.ledger:
        raise CannotRun(f"{wanted.ledger} is the plan's file; give --ledger another one, such as ledger.jsonl")


def write_ledger(path: Path, solved: "Solved") -> None:
    """Write what became of every candidate, and say on stderr how many met which end."""
    from planner.plan.file import write_text
    from planner.plan.ledger import ledger_to_jsonl, ledger_to_text
    from planner.solve.fleet import FleetSolution
    from planner.solve.ledger import ledger_of

    if isinstance(solved.optimum, FleetSolution) or solved.built.problem.arrivals:
        raise CannotRun(
            "--ledger tells of one slice that takes turns; there is none for a request rate or disaggregation"
        )
    ledger = ledger_of(solved.built.problem, solved.optimum)
    write_text(path, ledger_to_jsonl(ledger, solved.spec.name))
    console.complain(f"wrote {path}\n{ledger_to_text(ledger)}")


def show_command(path: Path, collectives: bool, style: str) -> int:
    """Print a plan file."""
    from planner.plan.file import read_plan
    from planner.plan.show import collective_table, show_plan

    plan = read_plan(path)
    if style == "json":
        print(plan.model_dump_json(indent=2, exclude_none=True))
        return DONE
    out = console.output()
    show_plan(plan, out)
    if collectives:
        for phase in (plan.prefill, plan.generate):
            out.print("", collective_table(phase), sep="\n")
    return DONE


def render_command(path: Path, folder: Path, overlay: Path | None, check: bool) -> int:
    """Render a package, or report how a folder differs from it."""
    from planner.plan.file import read_plan
    from planner.render import check_package, write_package

    plan = read_plan(path)
    if not check:
        written = write_package(plan, folder, overlay)
        console.complain(f"wrote {len(written)} files to {folder}")
        return DONE
    drift = check_package(plan, folder, overlay)
    print(drift.text() if drift else f"{folder} is what {path} renders to")
    return NO if drift else DONE


@dataclass(frozen=True)
class DiffRequest:
    """What `diff` is asked for besides its two sides."""

    style: str = "text"
    exit_code: bool = False
    overrides: tuple[str, ...] = ()
    attribute: bool | None = None
    policy: Path | None = None
    today: date | None = None


def diff_command(base: str, head: str, wanted: DiffRequest) -> int:
    """The difference of two plans, or of the plans of specs; a side without a plan is told in the same format."""
    from planner.diff import RENDERERS, Request, review

    policy = None
    if wanted.policy is not None:
        from planner.diff.policy import read_policy

        policy = read_policy(wanted.policy)
    today = wanted.today or date.today()
    found = review(Request(base, head, wanted.overrides, wanted.attribute, policy, today))
    if wanted.style == "html":
        from planner.report import diff_html

        print(diff_html(found), end="")
    else:
        print(RENDERERS[wanted.style](found), end="")
    if found.infeasible is not None:
        return INFEASIBLE
    broken = found.policy is not None and found.policy.broken
    return NO if broken or (wanted.exit_code and found.changes) else DONE


@dataclass(frozen=True)
class ReviewRequest:
    """What `review` is asked for."""

    folder: Path = Path(".")
    base: str = "HEAD"
    everything: bool = False
    check: bool = False
    policy: Path | None = None
    today: date | None = None
    attribute: bool = True
    overlay: Path | None = None
    comment: Path | None = None
    style: str = "text"


def review_command(asked: ReviewRequest) -> int:
    """The specs of a folder that a change touches, each compared, judged and held against what is kept of it."""
    if asked.check and (asked.policy is not None or asked.comment is not None):
        raise CannotRun("--check compares nothing with the base; leave --policy and --comment-file out")
    from planner.plan.file import write_text
    from planner.review import Wanted, review_to_json, review_to_markdown, review_to_text, run_review

    policy = None
    if asked.policy is not None:
        from planner.diff.policy import read_policy

        policy = read_policy(asked.policy)
    wanted = Wanted(
        folder=asked.folder.as_posix(),
        base=asked.base,
        everything=asked.everything,
        check=asked.check,
        policy=policy,
        today=asked.today or date.today(),
        attribute=asked.attribute,
        overlay=asked.overlay,
    )
    found = run_review(wanted, lambda spec: console.complain(f"reviewing {spec}"))
    if asked.comment is not None:
        write_text(asked.comment, review_to_markdown(found))
        console.complain(f"wrote {asked.comment}")
    print(review_to_json(found) if asked.style == "json" else review_to_text(found), end="")
    return found.exit_code


def verify_command(
    path: Path, target: str | None, style: str, buckets: tuple[int, ...] = (), run: str | None = None
) -> int:
    """Compile a plan's package, and run it if wanted, and print how the programs compare with the plan."""
    from planner.plan.file import read_plan
    from planner.verify import audit_to_json, show_audit, verify_plan

    plan = read_plan(path)
    chosen: Literal["tpu", "cpu"] | None = None if target is None else "tpu" if target == "tpu" else "cpu"
    size: Literal["tiny", "full"] | None = None if run is None else "tiny" if run == "tiny" else "full"
    audit = verify_plan(plan, chosen, console.progress, buckets or None, size)
    if style == "json":
        print(audit_to_json(audit))
    else:
        show_audit(audit, console.output())
    return DONE if audit.ok else NO


def explain_command(path: Path, address: str | None, style: str, questions: tuple[str, ...] = ()) -> int:
    """Why a plan, or one address of it, is as it is; with questions, why it is not otherwise."""
    from planner.explain import TOLD_WITH_LIMITS, explain, explanations_to_json, explanations_to_text, shadows_of
    from planner.explain.worth import TOLD_OF_FLEETS, explain_worth
    from planner.plan.file import read_plan

    plan = read_plan(path)
    if questions:
        if address is not None:
            raise CannotRun(f"--why-not asks about the whole plan; leave {address} out, or ask for it alone")
        return why_not_command(plan, questions, style)
    shadows = shadows_of(plan) if address in TOLD_WITH_LIMITS else {}
    if shadows is None:
        console.complain(f"{path}: not priced by today's catalogue, so its limits are not explained; plan it again")
    worth = explain_worth(plan) if plan.fleet is not None and address in TOLD_OF_FLEETS else []
    found = worth if worth and address == worth[0].address else [*explain(plan, address, shadows), *worth]
    print(explanations_to_json(found) if style == "json" else explanations_to_text(found), end="")
    return DONE


def why_not_command(plan: "Plan", questions: tuple[str, ...], style: str) -> int:
    """What each other choice would cost, or why it cannot be had."""
    from planner.explain.why_not import why_not
    from planner.explain.why_not_text import answers_to_json, answers_to_text

    found = why_not(plan, questions)
    text = answers_to_json(found) if style == "json" else answers_to_text(found, plan.proof.objective)
    print(text, end="")
    return DONE


@dataclass(frozen=True)
class ReportRequest:
    """What `report` is asked for: where to, what to compare with, and whether to solve around the plan."""

    written: Path
    base: str | None = None
    around: bool = True
    jobs: int | None = None


def report_command(path: Path, wanted: ReportRequest) -> int:
    """A plan as an HTML page."""
    from planner.plan.file import read_plan, write_text
    from planner.report import Beside, report_html

    if wanted.written.exists() and path.exists() and wanted.written.samefile(path):
        raise CannotRun(f"{wanted.written} is the plan itself; give -o another file, such as {path.stem}.html")
    plan = read_plan(path)
    base = None
    if wanted.base is not None:
        from planner.diff import Request, review

        base = review(Request(wanted.base, str(path)))
    batches, frontier = sections_around(plan, wanted.jobs) if wanted.around else (None, None)
    write_text(wanted.written, report_html(plan, Beside(base, batches, frontier)))
    console.complain(f"wrote {wanted.written}")
    return DONE


def sections_around(plan: "Plan", jobs: int | None) -> "tuple[Html, Html] | tuple[None, None]":
    """What is solved around a plan, drawn; nothing where today's catalogue has no plan for its spec, which is told."""
    from planner.errors import Unsupported
    from planner.sweep import cores
    from planner.sweep.around import around, grid_around
    from planner.sweep.sections import batches_view, frontier_view

    try:
        with console.progress_bar("solving around the plan", grid_around(plan).settings) as advance:
            found = around(plan, jobs or cores(), advance)
    except Unsupported as error:
        console.complain(f"the page has no plans beside this one: {error}")
        return None, None
    return batches_view(found), frontier_view(found)


def sweep_command(
    path: Path,
    overrides: tuple[str, ...],
    over: tuple[str, ...],
    latency: "LatencyName",
    against: "AgainstName | None",
    written: Path | None,
    jobs: int | None,
    style: str,
    everything: bool,
) -> int:
    """A spec over a grid of settings, and the frontier; the picture is written when all is solved."""
    from planner.plan.file import write_text
    from planner.sweep import cores, picture_writer, print_sweep, read_grid, run_sweep, sweep_to_csv, sweep_to_json

    draw = picture_writer(written) if written is not None else None
    grid = read_grid(path, overrides, over)
    with console.progress_bar("sweeping", grid.settings) as advance:
        found = run_sweep(grid, latency, against, jobs or cores(), advance)
    if written is not None and draw is not None:
        write_text(written, draw(found, grid.spec))
        console.complain(f"wrote {written}")
    if style == "text":
        print_sweep(found, console.output(), everything)
    else:
        print(sweep_to_json(found) if style == "json" else sweep_to_csv(found), end="")
    return DONE if found.points else INFEASIBLE


def simulate_command(path: Path, requests: int, seed: int, style: str) -> int:
    """Requests of the spec's lengths, served as a plan predicts."""
    from planner.plan.file import read_plan
    from planner.simulate import simulate, simulated_to_json, simulated_to_text

    found = simulate(read_plan(path), requests, seed)
    print(simulated_to_json(found) if style == "json" else simulated_to_text(found), end="")
    return DONE


def calibrate_command(devices: int, style: str) -> int:
    """Constants measured on this machine, beside the catalogue's."""
    from planner.calibrate import Effort, calibrate, calibration_tables, calibration_to_json

    with console.progress(f"measuring on {devices} virtual CPU devices"):
        found = calibrate(Effort(devices))
    if style == "json":
        print(calibration_to_json(found), end="")
    else:
        console.output().print(calibration_tables(found))
    return DONE


def chips_command(name: str | None, style: str) -> int:
    """The chip catalogue, or one chip with its sources."""
    from cost_models.chips import chip, chips
    from planner.plan.catalogue import catalogue_table, chip_data, chip_table

    chosen = chips() if name is None else (chip(name),)
    if style == "json":
        print(json.dumps([{**chip_data(each), "sources": dict(each.sources)} for each in chosen], indent=2))
    else:
        console.output().print(catalogue_table() if name is None else chip_table(chosen[0]))
    return DONE


def schema_command(of: str = "spec") -> int:
    """The JSON schema of a spec, or of a difference as JSON."""
    from planner.spec import json_schema

    schema = json_schema()
    if of == "diff":
        from planner.diff.data import json_schema as diff_schema

        schema = diff_schema()
    print(json.dumps({"$schema": JSON_SCHEMA, **schema}, indent=2))
    return DONE


def demo_command(prompt: str, directory: Path) -> int:
    """Plan, render and run the demo's model."""
    from planner.demo import run_demo

    return run_demo(prompt, directory)
