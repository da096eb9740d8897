"""The built distribution works where there is no checkout: sdist, wheel from it, fresh environment, the command."""

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from an sdist of the checkout."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    assert len(list(out.glob("*.tar.gz"))) == 1
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed command, in an environment that borrows only the dependencies of this one."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=True)
    run(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    site = run(
        home / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home
    ).strip()
    # A directory added by a .pth file is searched, but its own .pth files (the editable install) are not read.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home / "bin" / "shardwright"


def test_the_wheel_holds_data_and_no_tests(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "planner/_templates/model.py.j2",
        "planner/_examples/smollm2_135m_cpu8.yaml",
        "planner/spec/models/llama-3.1-70b.json",
        "planner/py.typed",
        "cost_models/chips.toml",
        "cost_models/stacks.toml",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "generated/", "benchmarks/", "docs/"))]


def test_the_installed_command_plans_and_renders_outside_the_checkout(command: Path, tmp_path: Path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        (ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    where = run(command.parent / "python", "-c", "import planner; print(planner.__file__)", cwd=tmp_path)
    assert str(command.parent.parent) in where
    assert "OPTIMAL" in run(command, "plan", "spec.yaml", "-o", "plan.yaml", cwd=tmp_path)
    run(command, "render", "plan.yaml", "-o", "package", cwd=tmp_path)
    run(command, "render", "plan.yaml", "-o", "package", "--check", cwd=tmp_path)
    assert (tmp_path / "package" / "sharding.py").exists()
    assert "v5e" in run(command, "chips", cwd=tmp_path)


def test_a_foreign_planner_package_is_noticed(tmp_path: Path):
    foreign = tmp_path / "planner"
    shutil.copytree(ROOT / "planner" / "cli", foreign / "cli")
    (foreign / "__init__.py").write_text("", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "import planner.cli"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "another distribution's package `planner`" in done.stderr
    assert "Traceback" not in done.stderr
