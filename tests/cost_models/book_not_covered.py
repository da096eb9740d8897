NOT_COVERED: dict[str, tuple[str, ...]] = {}
