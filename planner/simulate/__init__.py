"""Plan and request lengths -> TTFT, TPOT, throughput and goodput as distributions. The only user of simpy."""

from planner.simulate.replay import simulate
from planner.simulate.result import Distribution, Goodput, Simulated
from planner.simulate.text import simulated_to_json, simulated_to_text

__all__ = ["Distribution", "Goodput", "Simulated", "simulate", "simulated_to_json", "simulated_to_text"]
