"""Micro-benchmarks on the machine at hand -> measured constants beside the catalogue's."""

from planner.calibrate.calibrate import Calibration, calibrate
from planner.calibrate.measure import Effort
from planner.calibrate.text import calibration_tables, calibration_to_json

__all__ = ["Calibration", "Effort", "calibrate", "calibration_tables", "calibration_to_json"]
