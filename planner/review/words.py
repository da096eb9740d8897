"""A review in sentences that every format prints."""

from planner.diff.schema import PlanDiff
from planner.diff.sentences import headline
from planner.diff.words import amount, counted
from planner.review.schema import Review, Reviewed

TOLD_OF_NEW = ("service.ttft_s", "service.tpot_s", "service.tokens_per_s", "chips")
SHORT = {"service.ttft_s": "TTFT ", "service.tpot_s": "TPOT "}
PLURALS = {"error": "errors", "no plan": "without a plan"}
SINGULARS = {"error": "error", "no plan": "without a plan"}


def title(review: Review) -> str:
    """How many specs are touched, and what was found, without a full stop."""
    named = "this folder" if review.folder == "." else review.folder
    if not review.reviewed:
        return f"No spec of {named} is touched ({counted(review.specs, 'spec', 'specs')})"
    counts = (f"{n} {(SINGULARS if n == 1 else PLURALS).get(word, word)}" for word, n in review.counts())
    gone = sum(each.change == "removed" for each in review.reviewed)
    some = counted(len(review.reviewed), "spec", "specs")
    return f"{some} reviewed of {counted(review.specs + gone, 'spec', 'specs')} in {named}: {', '.join(counts)}"


def summary(each: Reviewed) -> str:
    """What happened to a spec, without a full stop."""
    if each.error:
        return each.error.splitlines()[0]
    if each.change == "removed":
        return "Removed"
    if each.diff is None:
        return "Plan or packages are not current" if each.stale else "What is kept of it is current"
    return headline(each.diff) if each.change == "changed" or each.diff.infeasible else f"New: {new_text(each.diff)}"


def new_text(diff: PlanDiff) -> str:
    """What a new spec reaches."""
    told = (each for address in TOLD_OF_NEW if (each := diff.number(address)) is not None)
    words = [f"{SHORT.get(each.address, '')}{amount(each.head, each)}" for each in told]
    return ", ".join(f"{word} chips" if word.isdigit() else word for word in words)


def broken_rules(each: Reviewed) -> tuple[str, ...]:
    """The rules that a spec breaks, with their lines and what was found."""
    judged = None if each.diff is None else each.diff.policy
    if judged is None:
        return ()
    return tuple(
        f"{rule.place}: {rule.rule} {rule.demand}: {rule.found}{f'; {rule.waiver}' if rule.waiver else ''}"
        for rule in judged.broken
    )


def said_at_length(each: Reviewed) -> str:
    """Text that is printed as it is: an error, or why there is no plan."""
    if each.error or each.diff is None or each.diff.infeasible is None:
        return each.error
    return each.diff.infeasible.message
