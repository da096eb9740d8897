"""What can be planned, and is not rendered yet."""

from planner.plan.schema import Plan
from planner.render.model import RenderError, model_of, refuse_unpackaged


def refuse_unrendered(plan: Plan) -> None:
    """Raise RenderError for models, dtypes and strategies that no package is rendered for yet, by name."""
    refuse_unpackaged(model_of(plan))
    drafts = plan.generate.speculation
    found = {
        f"{drafts.drafted_tokens if drafts else 0} drafts verified by a step": drafts is not None,
    }
    missing = [name for name, present in found.items() if present]
    if missing:
        raise RenderError(
            f"no package is rendered yet for {' and '.join(missing)}; plan the spec with "
            "--set serving.strategies=rendered"
        )
