# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Tests that travel with the package; run them with `python -m pytest` on the package's folder."""
