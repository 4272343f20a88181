"""Checks the manifests in this folder: against the schemas of Kubernetes, and for the rules that docs/deploying.md promises. Resources of KEDA
have no schema here and are only read. Prints the scaler's queries, one a line, for whoever wants to try them."""

import sys
from pathlib import Path

import kubernetes_validate
import yaml

VERSION = "1.28"
FOREIGN = "keda.sh/"


def fail(place, text):
    sys.exit(f"{place}: {text}")


def check_pod(place, pod):
    security = pod.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or security.get("runAsUser", 0) == 0:
        fail(place, "runs as root")
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        fail(place, "has no seccomp profile")
    if pod.get("automountServiceAccountToken") is not False:
        fail(place, "gets a token of the cluster")
    for container in pod["containers"]:
        own = container.get("securityContext", {})
        if own.get("readOnlyRootFilesystem") is not True:
            fail(place, "its root file system can be written")
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities", {}).get("drop") != ["ALL"]:
            fail(place, "keeps privileges")
        if "memory" not in container.get("resources", {}).get("limits", {}):
            fail(place, "has no limit of memory")


def check_deployment(place, spec):
    rolling = spec["strategy"].get("rollingUpdate", {})
    if spec["strategy"]["type"] != "RollingUpdate" or rolling.get("maxUnavailable") != 0:
        fail(place, "an update stops processes before new ones run")
    pod = spec["template"]["spec"]
    if pod.get("terminationGracePeriodSeconds", 30) < 27:
        fail(place, "kills a process before its grace is over")
    for container in pod["containers"]:
        probes = [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
        if probes != ["/livez", "/readyz"] or "--health" not in container["args"]:
            fail(place, "has no probes")


def main():
    seen = set()
    for file in sorted(Path(__file__).parent.glob("*.yaml")):
        for resource in yaml.safe_load_all(file.read_text()):
            place = f"{file.name}: {resource['kind']} {resource['metadata']['name']}"
            seen.add(resource["kind"])
            if resource["apiVersion"].startswith(FOREIGN):
                for trigger in resource["spec"].get("triggers", []):
                    print(trigger["metadata"]["query"])
                continue
            try:
                kubernetes_validate.validate(resource, VERSION, strict=True)
            except kubernetes_validate.ValidationError as error:
                fail(place, error.message)
            spec = resource.get("spec", {})
            if "template" in spec:
                check_pod(place, spec["template"]["spec"])
            if resource["kind"] == "Deployment":
                check_deployment(place, spec)
    missing = {"ConfigMap", "Deployment", "Job", "PodDisruptionBudget", "ScaledObject"} - seen
    if missing:
        fail("deploy/kubernetes", f"{sorted(missing)} are missing")


main()
