"""Physics of an inference step: what a chip, a link and a memory cost. Pure functions in SI units."""
