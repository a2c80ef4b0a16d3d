# ruff: noqa: INP001 - a script of the chart, no package
"""What ``helm test`` runs: a broken pod, as a dry run, must be refused by us, and a plain one must not.

Standard library only; who we are is in the files of the service account.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT_DIRECTORY", "/var/run/secrets/kubernetes.io/serviceaccount"))
# A kubelet takes up to 90 s to bring changed settings to the servers.
TRIES, PAUSE_SECONDS = 60, 2.0


def create(server: str, namespace: str, annotations: dict[str, str]) -> tuple[int, str]:
    """Return the status and the text of the API server's answer to a dry-run create."""
    resources = {"limits": {"cpu": "1500m", "memory": "64Mi"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "numa-admission-test-", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "none.invalid/none", "resources": resources}]},
    }
    request = urllib.request.Request(  # noqa: S310 - https only, see server
        f"{server}/api/v1/namespaces/{namespace}/pods?dryRun=All",
        data=json.dumps(pod).encode(),
        headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"},
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=15, context=trust) as answer:  # noqa: S310 - as above
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, str(json.loads(error.read()).get("message"))


def main(namespace: str, enforcement: str) -> int:
    """Return 0 once both answers are as they should be; the servers may still be starting."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    server = f"https://{f'[{host}]' if ':' in host else host}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    broken = {"cpuset-scheduler": "required", "scheduling.alibabacloud.com/numa-topology-spec": "{"}
    status = message = None
    for _ in range(TRIES):
        status, message = create(server, namespace, broken)
        is_ours = status == 403 and "numa-admission.io" in message and "denied the request" in message
        if is_ours or (enforcement == "warn" and status == 201):
            break
        time.sleep(PAUSE_SECONDS)
    else:
        sys.stdout.write(f"A broken pod got {status}: {message}\n")
        if status == 201:
            sys.stdout.write(
                f"Pods in {namespace} are not judged: see excludedNamespaces, tests.namespace, settings.\n"
            )
        return 1
    plain, _ = create(server, namespace, {})
    sys.stdout.write(f"A broken pod got {status}: {message}\nA plain pod got {plain}.\n")
    return 0 if plain == 201 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
