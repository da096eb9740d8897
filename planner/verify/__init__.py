"""Rendered package -> compiled program -> audit against the plan. The only user of a compiler."""

from planner.verify.audit import Audit, StepAudit, verify_plan
from planner.verify.show import audit_to_json, show_audit

__all__ = ["Audit", "StepAudit", "audit_to_json", "show_audit", "verify_plan"]
