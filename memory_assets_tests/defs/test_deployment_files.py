"""The files of deploy/cluster: manifests against Kubernetes' own schemas, values against the names that Dagster's chart knows, both
against the code."""

import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory_assets.defs.upkeep import LABEL
from memory_assets.settings import EXIT_SECONDS, FINISH_SECONDS, Settings, variable_names

DEPLOYMENT = Path(__file__).parents[2] / "deploy" / "cluster"
MANIFESTS = list(yaml.safe_load_all((DEPLOYMENT / "kubernetes" / "memory.yaml").read_text()))
VALUES: dict[str, Any] = yaml.safe_load((DEPLOYMENT / "kubernetes" / "dagster-values.yaml").read_text())
RECORDS: dict[str, Any] = yaml.safe_load((DEPLOYMENT / "dagster.yaml").read_text())
OLDEST_KUBERNETES = "1.28"
IN_PODS = """
    image env envConfigMaps envSecrets labels nodeSelector affinity tolerations podSecurityContext securityContext resources livenessProbe
    readinessProbe startupProbe annotations schedulerName volumeMounts volumes
"""
CHART = {
    "": """
        global dagsterWebserver dagster-user-deployments postgresql generatePostgresqlPasswordSecret generateCeleryConfigSecret rabbitmq
        redis flower ingress imagePullSecrets computeLogManager scheduler runLauncher pythonLogs dagsterDaemon busybox migrate telemetry
        serviceAccount retention concurrency additionalInstanceConfig
    """,
    "global": "postgresqlSecretName dagsterHome serviceAccountName celeryConfigSecretName dagsterInstanceConfigMap",
    "telemetry": "enabled",
    "postgresql": """
        enabled image postgresqlHost postgresqlUsername postgresqlPassword postgresqlDatabase postgresqlParams postgresqlScheme service
    """,
    "postgresql.service": "port",
    "dagster-user-deployments": "enabled enableSubchart imagePullSecrets deployments",
    "dagster-user-deployments.deployments": f"{IN_PODS} name dagsterApiGrpcArgs codeServerArgs includeConfigInLaunchedRuns port",
    "dagsterWebserver": f"""
        {IN_PODS} replicaCount nameOverride pathPrefix service workspace deploymentLabels enableReadOnly dbStatementTimeout dbPoolRecycle
        logLevel
    """,
    "dagsterWebserver.workspace": "enabled servers externalConfigmap",
    "dagsterWebserver.workspace.servers": "host port name ssl",
    "dagsterDaemon": f"""
        {IN_PODS} enabled runCoordinator heartbeatTolerance deploymentLabels runMonitoring runRetries sensors schedules
    """,
    "dagsterDaemon.runCoordinator": "enabled type config",
    "dagsterDaemon.runCoordinator.config": "queuedRunCoordinator customRunCoordinator",
    "dagsterDaemon.runCoordinator.config.queuedRunCoordinator": """
        maxConcurrentRuns tagConcurrencyLimits dequeueIntervalSeconds dequeueNumWorkers dequeueUseThreads blockOpConcurrencyLimitedRuns
    """,
    "dagsterDaemon.runMonitoring": """
        enabled startTimeoutSeconds cancelTimeoutSeconds maxResumeRunAttempts pollIntervalSeconds freeSlotsAfterRunEndSeconds
    """,
    "dagsterDaemon.runRetries": "enabled maxRetries retryOnAssetOrOpFailure",
    "runLauncher": "type config",
    "runLauncher.config": "celeryK8sRunLauncher k8sRunLauncher customRunLauncher",
    "runLauncher.config.customRunLauncher": "module class config",
    "computeLogManager": "type config",
    "pythonLogs": "pythonLogLevel managedPythonLoggers dagsterHandlerConfig",
    "retention": "enabled sensor schedule autoMaterialize",
    "retention.sensor": "purgeAfterDays",
    "retention.sensor.purgeAfterDays": "skipped success failure started",
    "retention.schedule": "purgeAfterDays",
}
"""The keys of each section that the chart's `values.schema.json` names, of Dagster 1.13."""


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, "newest"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_manifests_are_what_kubernetes_takes(manifest: dict[str, Any], version: str):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    version = kubernetes_validate.latest_version() if version == "newest" else version
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_pods_of_the_chart_are_what_kubernetes_takes():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for each in (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], *VALUES["dagster-user-deployments"]["deployments"]):
        sources = [{"configMapRef": one} for one in each["envConfigMaps"]] + [{"secretRef": one} for one in each["envSecrets"]]
        container = {"name": "x", "image": "x", "envFrom": sources, "volumeMounts": each.get("volumeMounts", [])}
        pod = {"containers": [container], "volumes": each.get("volumes", [])}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
        kubernetes_validate.validate(manifest, OLDEST_KUBERNETES, strict=True)


def test_the_chart_knows_every_value():
    unknown = [
        f"{section}.{key}"
        for section, keys in _sections("", VALUES)
        if section in CHART
        for key in keys
        if key not in CHART[section].split()
    ]
    assert not unknown
    assert CHART.keys() <= {section for section, _ in _sections("", VALUES)}, "a section that is checked no more"


def test_both_deployments_run_alike():
    daemon, runs = VALUES["dagsterDaemon"], RECORDS["concurrency"]["runs"]
    queued = _snake_case(daemon["runCoordinator"]["config"]["queuedRunCoordinator"])
    assert queued == RECORDS["run_coordinator"]["config"] | runs
    for section, ours in (
        ("run_monitoring", daemon["runMonitoring"]),
        ("run_retries", daemon["runRetries"]),
        ("retention", {name: given for name, given in VALUES["retention"].items() if name != "enabled"}),
        ("python_logs", VALUES["pythonLogs"]),
    ):
        assert _snake_case(ours).items() <= RECORDS[section].items()


def test_no_service_sets_a_setting():
    """Kubernetes tells every pod of each service of its namespace by variables, such as REDIS_PORT for `redis`."""
    names = [each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "Service"]
    names += [each["name"] for each in VALUES["dagster-user-deployments"]["deployments"]]
    settings = {variable for field in Settings.model_fields for variable in variable_names(field)}
    for name in (each.upper().replace("-", "_") for each in names):
        assert not settings & {f"{name}_PORT", f"{name}_SERVICE_HOST", f"{name}_SERVICE_PORT"}


def test_selectors_find_their_pods():
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in MANIFESTS if each["kind"] == "Deployment"]
    for each in MANIFESTS:
        if each["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            selector = each["spec"]["selector"]
            assert selector.get("matchLabels", selector) in pods


def test_pods_write_only_to_their_cache_and_keep_to_the_restricted_standard_of_kubernetes():
    for pod in (each["spec"]["template"]["spec"] for each in MANIFESTS if each["kind"] == "Deployment"):
        (container,) = pod["containers"]
        alone = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == alone
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"name": "TMPDIR", "value": "/cache"} in container["env"]


def test_every_setting_is_one():
    names = {
        name for field, info in Settings.model_fields.items() for name in (f"MEMORY_{field.upper()}", str(info.validation_alias))
    }
    (config,) = (each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap")
    lines = re.findall(r"^(MEMORY_\w+)=", (DEPLOYMENT / "settings.env").read_text(), re.MULTILINE)
    assert {name for name in [*config, *lines] if name.startswith("MEMORY_")} <= names


def test_the_service_of_kubernetes_has_the_variables_with_which_it_deletes_a_tenant_from_dagsters_records():
    (config,) = (each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap")
    (pod,) = (
        each["spec"]["template"]["spec"]
        for each in MANIFESTS
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "memory-service"
    )
    given = {*config, *(each["name"] for each in pod["containers"][0]["env"])}
    assert {value for _, section in _sections("", RECORDS) for key, value in section.items() if key == "env"} <= given


def test_both_deployments_name_the_code_location_as_the_deletion_of_a_tenant_knows_its_runs():
    (code,) = VALUES["dagster-user-deployments"]["deployments"]
    (server,) = VALUES["dagsterWebserver"]["workspace"]["servers"]
    assert server == {"host": code["name"], "port": code["port"], "name": LABEL.partition("@")[2]}
    (location,) = yaml.safe_load((DEPLOYMENT / "workspace.yaml").read_text())["load_from"]
    assert location["grpc_server"]["location_name"] == server["name"]


def test_the_service_answers_to_its_name():
    (config,) = (each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap")
    names = [each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "Service"]
    for name in names:
        assert {name, f"{name}.default.svc.cluster.local"} <= {*config["MEMORY_ALLOWED_HOSTS"].split(",")}


def test_kubernetes_waits_for_the_requests_that_the_service_accepted():
    specs = {each["metadata"]["name"]: each["spec"] for each in MANIFESTS if each["kind"] == "Deployment"}
    pod = specs["memory-service"]["template"]["spec"]
    *_, pause = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert pod.get("terminationGracePeriodSeconds", 30) >= int(pause) + FINISH_SECONDS + 2 * EXIT_SECONDS


def test_the_memory_of_the_services_pods_does_not_grow_with_the_processors_of_a_node():
    (service,) = (
        each["spec"]["template"]["spec"]["containers"][0]
        for each in MANIFESTS
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "memory-service"
    )
    assert "MEMORY_WORKERS" in {each["name"] for each in service["env"]}


@pytest.mark.parametrize(("part", "module"), [("daemon", "dagster._daemon"), ("code", "dagster")])
def test_daemon_and_code_location_start_after_the_records_were_opened_and_those_of_a_clock_that_was_ahead_deleted(
    tmp_path: Path, part: str, module: str
):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$2" >> "$DAGSTER_HOME/started"\n[ ! -e "$DAGSTER_HOME/../away" ]\n')
    python.chmod(0o700)
    home = tmp_path / "home"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DAGSTER_HOME": str(home), "MEMORY_DATA_DIR": str(tmp_path / "data")}
    start = [DEPLOYMENT / "start", part]
    subprocess.run(start, env=environment | {"CODE_LOCATION_PORT": "1"}, check=True)
    (tmp_path / "away").touch()
    assert subprocess.run(start, env=environment).returncode
    assert (home / "started").read_text().split() == ["memory_assets.defs.instance", module, "memory_assets.defs.instance"]


def test_the_launcher_of_both_deployments_is_there():
    mine = RECORDS["run_launcher"]
    theirs = VALUES["runLauncher"]["config"]["customRunLauncher"]
    assert {key: mine[key] for key in ("module", "class", "config")} == theirs
    assert hasattr(import_module(mine["module"]), mine["class"])


def _sections(path: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the mappings in some values, each with its path; those in a list have the list's path."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield path, each
            for key, below in each.items():
                yield from _sections(f"{path}.{key}".strip("."), below)


def _snake_case(values: Any) -> Any:
    """Values as the chart writes them to dagster.yaml."""
    if not isinstance(values, dict):
        return values
    return {re.sub("([A-Z])", r"_\1", key).lower(): _snake_case(value) for key, value in values.items()}
