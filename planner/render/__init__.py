"""Plan -> PackageView -> rendered package. The only user of Jinja2."""

from planner.render.folder import Drift, check_package, is_rendered, write_package
from planner.render.model import RenderError
from planner.render.package import render_package
from planner.render.view import PackageView, package_view

__all__ = [
    "Drift",
    "PackageView",
    "RenderError",
    "check_package",
    "is_rendered",
    "package_view",
    "render_package",
    "write_package",
]
