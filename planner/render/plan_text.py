"""The text of a plan file: the same plan always gives the same text."""

from io import StringIO

from ruamel.yaml import YAML

from planner.plan.schema import Plan


def plan_text(plan: Plan) -> str:
    """`plan` as YAML, in the schema's order, short lists on one line."""
    yaml = YAML()
    yaml.default_flow_style = None
    yaml.width = 120
    stream = StringIO()
    yaml.dump(plan.model_dump(mode="json", exclude_none=True), stream)
    return stream.getvalue()
