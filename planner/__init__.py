"""Sharding plans for language-model inference in JAX: spec, problem, solution, plan, package."""

DISTRIBUTION = "shardwright"
