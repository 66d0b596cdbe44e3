"""The files below deploy/ that these tests compare."""

import importlib.util
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
APP_CONTAINERFILE = DEPLOY / "compose" / "app" / "Containerfile"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
CHART = DEPLOY / "kubernetes" / "uwsgi-headroom"
KUSTOMIZE = DEPLOY / "kubernetes" / "kustomize"
OURS = ("container", "compose", "kubernetes", "grafana", "prometheus")


def load(path):
    return yaml.safe_load(path.read_text())


def load_script(path):
    """Loads a script that is not part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instructions(path):
    """Returns the instructions of a Containerfile, each with its argument on one line."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    parts = [line.split(None, 1) for line in joined if line.strip()]
    return [(part[0], " ".join(part[1].split())) for part in parts]


def last_stage(path):
    found = instructions(path)
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def sidecar_patch():
    """Returns the container that the kustomize component adds."""
    return load(KUSTOMIZE / "sidecar" / "patch.yaml")["spec"]["template"]["spec"]["containers"][0]
