"""A spec over a grid of settings: every point a proved plan, and the Pareto frontier of latency against the rest."""

from planner.sweep.grid import read_grid
from planner.sweep.page import picture_writer
from planner.sweep.run import cores, run_sweep
from planner.sweep.text import print_sweep, sweep_to_csv, sweep_to_json

__all__ = ["cores", "picture_writer", "print_sweep", "read_grid", "run_sweep", "sweep_to_csv", "sweep_to_json"]
