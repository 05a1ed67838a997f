"""Run Ray's planner on a case in a separate virtual environment, or return its recorded answer if Ray cannot be installed."""

import subprocess
import sys
from pathlib import Path

from bench.cases import Case, case_path
from bench.measuring import ROOT, progress
from penstock.model.value import Value

RAY = "ray==2.60.0"
"""The version whose answers the cases record."""

_HOME = ROOT / ".bench" / "ray-venv"
_PYTHON = _HOME / ("Scripts" if sys.platform == "win32" else "bin") / "python"
_SCRIPT = Path(__file__).resolve().parent / "ray_side.py"
_PROBE = f"import ray, ray.autoscaler.v2.scheduler; assert ray.__version__ == '{RAY.split('==')[1]}'"


class RayAnswer(Value):
    """Ray's launches for a case, and whether they were measured in this run."""

    case: str
    cpu_seconds: float
    nodes: int
    cost: float
    unplaced: int
    launched: dict[str, int]
    measured: bool


def ray_python() -> tuple[Path | None, str | None]:
    """The Python of the environment with Ray, created on first use; or None and the reason."""
    if _has_ray():
        return _PYTHON, None
    progress(f"packing: installing {RAY} into {_HOME.relative_to(ROOT)}")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(_HOME)],
        [str(_PYTHON), "-m", "pip", "install", "--quiet", RAY],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, _last_line(done.stderr)
    return (_PYTHON, None) if _has_ray() else (None, "it is installed but cannot be imported")


def ask_ray(case: Case, python: Path | None) -> RayAnswer:
    """Ray's answer: measured if there is a Python with Ray, else recorded. Only the times of the two may differ."""
    recorded = _recorded(case)
    if python is None:
        return recorded
    command = [str(python), "-I", str(_SCRIPT), str(case_path(case.name))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer = RayAnswer.model_validate_json(output)
    if answer.model_copy(update={"cpu_seconds": recorded.cpu_seconds, "measured": False}) != recorded:
        progress(f"packing {case.name}: Ray launched {answer.launched}, but {recorded.launched} is recorded")
    return answer


def _recorded(case: Case) -> RayAnswer:
    ray = case.results["ray"]
    return RayAnswer(
        case=case.name,
        cpu_seconds=ray["cpu_seconds"],
        nodes=ray["nodes"],
        cost=ray["cost"],
        unplaced=ray["unplaced_demands"] + ray["unplaced_gangs"],
        launched=ray["launched"],
        measured=False,
    )


def _has_ray() -> bool:
    if not _PYTHON.exists():
        return False
    return subprocess.run([str(_PYTHON), "-I", "-c", _PROBE], capture_output=True, check=False).returncode == 0


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason was given"
