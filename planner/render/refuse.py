"""What can be planned, and is not rendered yet."""

from planner.plan.schema import Plan
from planner.render.model import RenderError, model_of, refuse_unpackaged


def refuse_unrendered(plan: Plan) -> None:
    """Raise RenderError for models, dtypes and strategies that no package is rendered for yet, by name."""
    refuse_unpackaged(model_of(plan))
    drafts = plan.generate.speculation
    if drafts is not None:
        raise RenderError(
            f"no package is rendered yet for {drafts.drafted_tokens} drafts verified by a step; plan the spec with "
            "--set pins.generate.speculation=off"
        )
