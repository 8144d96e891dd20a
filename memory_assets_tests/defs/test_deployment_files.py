"""The files of deploy/cluster: manifests against Kubernetes' own schemas, and what they name against the code."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory_assets.settings import Settings

DEPLOYMENT = Path(__file__).parents[2] / "deploy" / "cluster"
MANIFESTS = list(yaml.safe_load_all((DEPLOYMENT / "kubernetes" / "memory.yaml").read_text()))
VALUES: dict[str, Any] = yaml.safe_load((DEPLOYMENT / "kubernetes" / "dagster-values.yaml").read_text())
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.28", "1.34"


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_manifests_are_what_kubernetes_takes(manifest: dict[str, Any], version: str):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(manifest, version, strict=True)


def test_selectors_find_their_pods():
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in MANIFESTS if each["kind"] == "Deployment"]
    for each in MANIFESTS:
        if each["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            selector = each["spec"]["selector"]
            assert selector.get("matchLabels", selector) in pods


def test_every_setting_is_one():
    names = {
        name for field, info in Settings.model_fields.items() for name in (f"MEMORY_{field.upper()}", str(info.validation_alias))
    }
    (config,) = (each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap")
    lines = re.findall(r"^(MEMORY_\w+)=", (DEPLOYMENT / "settings.env").read_text(), re.MULTILINE)
    assert {name for name in [*config, *lines] if name.startswith("MEMORY_")} <= names


def test_the_launcher_of_both_deployments_is_there():
    mine = yaml.safe_load((DEPLOYMENT / "dagster.yaml").read_text())["run_launcher"]
    theirs = VALUES["runLauncher"]["config"]["customRunLauncher"]
    assert {key: mine[key] for key in ("module", "class", "config")} == theirs
    assert hasattr(import_module(mine["module"]), mine["class"])
