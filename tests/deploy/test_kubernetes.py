"""The Helm chart and the folder of kustomize, with their autoscaling."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter

import jsonschema
import pytest
import yaml

from tests.deploy.files import CHART, KUSTOMIZE, ROOT, load, sidecar_patch
from tests.support import promtool
from tools import kubernetes_files
from tools.kubernetes_files import DASHBOARDS
from tools.release.distributions import lay_out
from uwsgi_headroom import __version__

RULES = sorted((ROOT / "alerts" / "rules").glob("*.yaml"))
VALUES = load(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
HELM = os.environ.get("HELM") or shutil.which("helm")
KUBECTL = shutil.which("kubectl")

needs_helm = pytest.mark.skipif(not HELM, reason="needs helm: go install helm.sh/helm/v3/cmd/helm@latest")
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="needs kubectl: apt-get install kubernetes-client")


def merged(base, change):
    result = dict(base)
    for name, value in change.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The folder of the chart as it is packed for a release."""
    folder = tmp_path_factory.mktemp("packed") / "uwsgi-headroom"
    lay_out(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def kustomize(tmp_path_factory):
    """The folder of kustomize, with the PrometheusRules that `make kubernetes-rules` writes, below a root with the
    dashboards."""
    root = tmp_path_factory.mktemp("clone")
    shutil.copytree(DASHBOARDS, root / DASHBOARDS.relative_to(ROOT))
    folder = root / KUSTOMIZE.relative_to(ROOT)
    shutil.copytree(KUSTOMIZE, folder, ignore=shutil.ignore_patterns("rules"))
    (folder / "rules").mkdir()
    (folder / "rules" / "removed.yaml").write_text("")
    kubernetes_files.main(folder / "rules")
    return folder


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_rules_are_those_of_the_repository(path, packed, kustomize):
    """The chart has the rule file byte for byte, and a PrometheusRule has its groups word for word."""
    assert (packed / "files" / "rules" / path.name).read_bytes() == path.read_bytes()
    if path.stem not in VALUES["rules"]["except"]:
        rule = load(kustomize / "rules" / path.name)
        assert rule["spec"] == load(path)
        assert rule["kind"] == "PrometheusRule"


def test_rules_and_dashboards_are_those_of_the_repository(packed, kustomize):
    """None is left over, and each that kustomize names exists."""
    names = {path.name for path in RULES}
    assert {path.name for path in (packed / "files" / "rules").iterdir()} == names
    listed = set(load(kustomize / "rules" / "kustomization.yaml")["resources"])
    assert {path.name for path in (kustomize / "rules").iterdir()} == {*listed, "kustomization.yaml"}
    assert listed == names - {f"{name}.yaml" for name in VALUES["rules"]["except"]}
    made = {path.name: path.read_bytes() for path in DASHBOARDS.glob("*.json")}
    assert {path.name: path.read_bytes() for path in (packed / "files" / "dashboards").iterdir()} == made
    maps = load(DASHBOARDS / "kustomization.yaml")["configMapGenerator"]
    assert {part["files"][0].partition("=")[2] for part in maps} == set(made)
    for path in kustomize.rglob("kustomization.yaml"):
        document = load(path)
        names = [*document.get("resources", ()), *document.get("components", ())]
        names += [patch["path"] for patch in document.get("patches", ())]
        assert all((path.parent / name).exists() for name in names), path


@needs_kubectl
@pytest.mark.parametrize(("name", "others"), [("base", 2), ("example", 3)])
def test_kustomize_builds_every_object(kustomize, name, others):
    """Each rule file and each dashboard is an object, beside the PodMonitor, the policy and the example."""
    assert KUBECTL
    ran = subprocess.run([KUBECTL, "kustomize", str(kustomize / name)], capture_output=True, text=True, check=True)
    kinds = Counter(document["kind"] for document in yaml.safe_load_all(ran.stdout))
    assert kinds["PrometheusRule"] == len(RULES) - len(VALUES["rules"]["except"])
    assert kinds["ConfigMap"] == len(list(DASHBOARDS.glob("*.json")))
    assert kinds.total() - kinds["PrometheusRule"] - kinds["ConfigMap"] == others


def test_the_version_is_that_of_the_exporter():
    chart = load(CHART / "Chart.yaml")
    assert chart["appVersion"] == chart["version"] == __version__


def test_the_policy_and_the_monitor_select_the_pods_of_the_component():
    labels = load(KUSTOMIZE / "sidecar" / "patch.yaml")["spec"]["template"]["metadata"]["labels"]
    monitor, policy = (load(KUSTOMIZE / "base" / name) for name in ("podmonitor.yaml", "networkpolicy.yaml"))
    assert monitor["spec"]["selector"]["matchLabels"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert labels == VALUES["selector"]
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == sidecar_patch()["ports"][0]["name"]


def test_the_chart_in_a_checkout_has_the_rules_and_dashboards():
    for name, target in (("rules", ROOT / "alerts" / "rules"), ("dashboards", DASHBOARDS)):
        folder = CHART / "files" / name
        assert not folder.is_symlink() or not folder.readlink().is_absolute()
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert found == {path.name: path.read_bytes() for path in target.iterdir()}


def test_every_value_is_in_the_schema():
    def missing(values, schema, path):
        known = schema.get("properties")
        if known is None:
            return []
        lacking = [f"{path}.{name}" for name in values if name not in known]
        inner = [(name, value) for name, value in values.items() if isinstance(value, dict) and name in known]
        return lacking + [found for name, value in inner for found in missing(value, known[name], f"{path}.{name}")]

    assert missing(VALUES, SCHEMA, "") == []


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_values_fit_the_schema(path):
    jsonschema.validate(merged(VALUES, load(path)), SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"sidecar": {"prot": 1}},
        {"sidecar": {"runAsUser": 0}},
        {"podMonitor": {"job": "other"}},
        {"networkPolicy": {"from": []}},
        {"sidecar": {"socket": "*.stats"}},
        {"autoscaling": {"kind": "vpa"}},
        {"autoscaling": {"utilization": 1}},
        {"image": {"digest": "latest"}},
        {"deployment": {"enabled": True}},
        {"deployment": {"enabled": True, "stats": {"shop": "/run/uwsgi/stats"}}},
        {"nameOverride": "My_Name"},
        {"commonLabels": {"helm.sh/chart": "other"}},
        {"unknown": {}},
    ],
)
def test_the_schema_refuses(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(VALUES, change), SCHEMA)


@pytest.mark.parametrize("path", ["selector", "networkPolicy.from", "podMonitor.scheme", "podMonitor.job", "example"])
def test_the_schema_refuses_a_value_that_is_removed(path):
    """helm removes what is set to null: a policy would then admit everyone, or apply to every pod of the namespace."""
    *outer, name = path.split(".")
    values = merged(VALUES, {})
    for key in outer:
        values[key] = dict(values[key])
    del (values[outer[0]] if outer else values)[name]
    with pytest.raises(jsonschema.ValidationError, match=f"'{name}' is a required property"):
        jsonschema.validate(values, SCHEMA)


def test_the_component_is_the_sidecar_of_the_chart():
    """The same socket, port, resources and limits of rights; other settings of a pod are the application's."""
    patch, sidecar = sidecar_patch(), VALUES["sidecar"]
    assert patch["resources"] == sidecar["resources"]
    directory = sidecar["directory"]
    assert patch["args"] == ["--stats", f"{sidecar['server']}={directory}/{sidecar['socket']}"]
    assert patch["volumeMounts"] == [{"name": "uwsgi-headroom-run", "mountPath": directory}]
    assert patch["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "readinessProbe" not in patch
    spec = load(KUSTOMIZE / "sidecar" / "patch.yaml")["spec"]["template"]["spec"]
    assert set(spec) == {"shareProcessNamespace", "securityContext", "containers", "volumes"}
    assert set(spec["securityContext"]) == {"fsGroup"}


def rendered(path, *options, chart=CHART):
    """The objects that helm makes with these values, of the chart in this clone unless another is named."""
    assert HELM
    command = [HELM, "template", "shop", str(chart), "--kube-version=1.36.0", "--namespace=shop", f"--values={path}"]
    ran = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(ran.stdout) if document]


def refusal(*arguments, **chart):
    """What helm says of values that it refuses."""
    with pytest.raises(subprocess.CalledProcessError) as error:
        rendered(*arguments, **chart)
    return error.value.stderr


@needs_helm
def test_nothing_is_installed_unasked():
    """An autoscaler that cannot work is an error."""
    assert rendered(CHART / "values.yaml") == []
    said = refusal(CHART / "ci" / "all-values.yaml", "--set=autoscaling.minReplicas=11")
    assert "autoscaling.minReplicas (11) is above autoscaling.maxReplicas (10)" in said
    assert "autoscaling.target.name" in refusal(CHART / "values.yaml", "--set=autoscaling.kind=keda")


@needs_helm
def test_helm_renders_everything(packed):
    """Each kind is there, rules are word for word, and pods carry no token; a packed chart is the same."""
    objects = rendered(CHART / "ci" / "all-values.yaml")
    assert rendered(CHART / "ci" / "all-values.yaml", chart=packed) == objects
    kinds = {document["kind"] for document in objects}
    assert kinds >= {"Deployment", "PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy", "ScaledObject"}
    rules = {
        document["metadata"]["name"]: document["spec"] for document in objects if document["kind"] == "PrometheusRule"
    }
    for path in RULES:
        if path.stem not in VALUES["rules"]["except"]:
            assert rules[f"shop-uwsgi-headroom-{path.stem.replace('_', '-')}"] == load(path)
    (pod,) = (document["spec"]["template"]["spec"] for document in objects if document["kind"] == "Deployment")
    assert pod["shareProcessNamespace"] is True
    assert pod["automountServiceAccountToken"] is False
    assert [container["name"] for container in pod["containers"]] == ["app", "uwsgi-headroom"]


@needs_helm
@pytest.mark.parametrize("name", ["selector", "networkPolicy.from"])
def test_a_policy_without_limits_is_an_error(name):
    """`null` takes the shipped limit away."""
    assert "missing property" in refusal(CHART / "ci" / "all-values.yaml", f"--set={name}=null")


@needs_helm
@pytest.mark.parametrize("name", ["rules", "dashboards"])
def test_a_chart_without_its_files_is_an_error(name, packed, tmp_path):
    """A copy whose links lead nowhere would install no rule, and no alert would ever fire."""
    chart = tmp_path / "uwsgi-headroom"
    shutil.copytree(packed, chart, ignore=shutil.ignore_patterns(name))
    assert f"files/{name} has no {name}" in refusal(CHART / "ci" / "all-values.yaml", chart=chart)


@needs_helm
def test_an_exporter_of_its_own():
    """It reads the servers that are named, with TLS, never as root; names and labels are those of the installation."""
    objects = rendered(CHART / "ci" / "deployment-values.yaml")
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    stats = ["api=http://api.shop.svc:1717", "shop=tcp://shop.shop.svc:1717"]
    assert container["args"] == ["--stats", stats[0], "--stats", stats[1]]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["uwsgi-headroom-web"]
    assert (container["securityContext"]["runAsNonRoot"], "add" in container["securityContext"]["capabilities"]) == (
        True,
        False,
    )
    (monitor,) = (each for each in objects if each["kind"] == "PodMonitor")
    pod_labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod_labels.items()
    for made in objects:
        labels = made["metadata"]["labels"]
        assert made["metadata"]["name"] == "shop-headroom"
        assert (labels["app.kubernetes.io/name"], labels["team"]) == ("headroom", "platform")
    other = rendered(CHART / "ci" / "deployment-values.yaml", "--set=serviceMonitor.enabled=true")
    (monitor_of_service,) = (each["spec"] for each in other if each["kind"] == "ServiceMonitor")
    (service,) = (each for each in other if each["kind"] == "Service")
    assert monitor_of_service["endpoints"] == monitor["spec"]["podMetricsEndpoints"]
    assert monitor_of_service["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"] == monitor["spec"]["selector"]["matchLabels"]
    assert service["spec"]["ports"][0]["targetPort"] == monitor_of_service["endpoints"][0]["port"]
    whole = rendered(CHART / "ci" / "deployment-values.yaml", "--set=fullnameOverride=exporter")
    assert {made["metadata"]["name"] for made in whole} == {"exporter"}


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("default", "Nothing is installed yet"),
        ("all", "Installed: a PodMonitor, a network policy, alert rules, an autoscaler, dashboards, the example."),
        ("waits", "There is no PodMonitor"),
    ],
)
def test_the_notes_are_true(values, said, packed, tmp_path):
    """They say what was installed, and promise no monitoring that nobody does."""
    chart = tmp_path / "uwsgi-headroom"
    shutil.copytree(packed, chart)
    shutil.move(chart / "templates" / "NOTES.txt", chart / "files" / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "files/notes.txt") . | toJson }}\n'
    )
    made = rendered(CHART / "ci" / f"{values}-values.yaml", "--show-only=templates/notes.yaml", chart=chart)
    (notes,) = (each["text"] for each in made)
    assert said in notes
    assert ("Prometheus scrapes" in notes) == (values == "all")


LABELS = 'namespace="shop",server="app"'
POD = f"{LABELS},pod="


def expression():
    text = (CHART / "templates" / "_autoscaling.tpl").read_text()
    found = re.search(r'define "uwsgi-headroom.utilization" -}}\n.*? -}}\n(.*?){{- end }}', text, re.DOTALL)
    return re.sub(r" ?{{- \$labels -?}} ?", LABELS, found[1])


def pod(name, *, headroom, busy, wait, rate):
    """The samples of a pod with 32 threads."""
    labels = f'{POD}"{name}"'
    window = f'{labels},window="1m"'
    samples = {f'uwsgi_headroom_ratio{{{window},limit="{limit}"}}': factor for limit, factor in headroom.items()}
    samples |= {
        f"uwsgi_up{{{labels}}}": 1.0,
        f"uwsgi_threads_available{{{labels}}}": 32.0,
        f'uwsgi_concurrency{{{window},method="observed"}}': busy,
        f'uwsgi_concurrency{{{window},method="littles_law"}}': busy,
        f"uwsgi_throughput_requests_per_second{{{window}}}": rate,
    }
    return samples | ({} if wait is None else {f"uwsgi_queue_wait_seconds{{{window}}}": wait})


CALM = pod("a", headroom={"threads": 4, "cpu": 2, "hottest_interpreter": 1.25}, busy=8, wait=0, rate=100)
OVERLOADED = pod("b", headroom={"threads": 1, "interpreters": 2}, busy=32, wait=0.16, rate=100)
IDLE = pod("c", headroom={}, busy=0.1, wait=None, rate=0.5)
STUCK = pod("d", headroom={"threads": 1}, busy=32, wait=None, rate=0)
DOWN = {f'uwsgi_up{{{POD}"e"}}': 0.0}
OTHER = {'uwsgi_up{namespace="shop",server="other",pod="f"}': 1.0}


@pytest.mark.parametrize(
    ("samples", "utilization"),
    [
        (CALM, {"a": 0.5}),
        (OVERLOADED, {"b": 1.5}),
        (IDLE, {"c": 0.0}),
        (STUCK, {"d": 1.0}),
        (CALM | DOWN | OTHER, {"a": 0.5}),
        (DOWN, {}),
    ],
    ids=["calm", "overloaded", "idle", "stuck", "another is down", "all are down"],
)
def test_utilization_of_pods(tmp_path, samples, utilization):
    """The first limit counts, but not an uneven spread; a queue counts beyond 1; a pod without data has none."""
    wanted = [{"labels": f'{{namespace="shop", pod="{name}"}}', "value": value} for name, value in utilization.items()]
    series = {name: f"{value}x8" for name, value in samples.items()}
    asked = {"expr": expression(), "eval_time": "1m", "exp_samples": wanted}
    assert promtool.evaluate(tmp_path, series, "15s", [asked]) == ""
