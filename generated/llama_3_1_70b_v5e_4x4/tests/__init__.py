# Rendered from plan.yaml (sha256 cf84d444). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Tests that travel with the package; run them with `python -m pytest` on the package's folder."""
