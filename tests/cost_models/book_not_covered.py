"""Cases of the book that the cost models are not asked, by the reason."""

NOT_COVERED: dict[str, tuple[str, ...]] = {
    "a measurement or a plot, which a roofline does not derive": (
        "sh-empirical-ici-fraction",
        "sh-pq2a-measured",
        "sh-pq2b-measured",
        "jax-collective-matmul",
        "inf-xla-latency-knee",
        "inf-appA-plot-latency",
        "inf-appA-plot-throughput",
        "app-decode-bound-within",
        "app-qps-real-fraction",
        "app-useful-tp-range",
        "gpu-emp-ar-peak",
        "gpu-emp-ar-58mb",
        "gpu-sharp-measured",
    ),
    "arithmetic on its own inputs, with no cost behind it": (
        "rl-tile-intensity",
        "inf-param-kv-ratio",
        "app-full-hbm-decode-512",
        "gpu-q4-2-sharp-bytes",
    ),
    "a slip in a printed program, which there is no reason to port": ("app-rooflinecode-batch-index-bug",),
    "vector registers, which nothing prices": ("tpu-vreg-bytes-v5p",),
    "a rounded size of host memory; the catalogue has the exact one": ("inf-prefix-host-dram-8xv5e",),
    "one-directional rings, which no chip of the catalogue has": (
        "sh-alltoall-factor-uni",
        "sh-q10-1-uni-ag",
        "sh-q10-2-uni-a2a",
        "sh-q10-5-bidi-gain",
    ),
    "counts the share that a node holds already at some of its points and not at others": (
        "gpu-pq3-sharded-ag",
        "gpu-xnode-a2a-degradation",
    ),
    "pipelines of micro-batches": ("gpu-pp-comms",),
}
