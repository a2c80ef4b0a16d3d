"""The command lines of the control plane's programs, with the reason for each flag that is not plain wiring."""

from dataclasses import dataclass
from pathlib import Path

SERVICE_ADDRESSES = "10.96.0.0/16"
SERVING_NAMES = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
)


@dataclass(frozen=True)
class Ports:
    """The loopback port of each program."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True)
class Files:
    """The files that the command lines name; all lie under one temporary folder."""

    etcd_data: Path
    scratch: Path
    ca: Path
    serving_certificate: Path
    serving_key: Path
    tokens_key: Path
    tokens_public_key: Path


def etcd(ports: Ports, files: Files) -> list[str]:
    """Store of a few test objects: no fsync, for nothing here outlives the machine."""
    client, peer = (f"http://127.0.0.1:{port}" for port in (ports.etcd, ports.etcd_peer))
    return [
        f"--data-dir={files.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(ports: Ports, files: Files, *, with_controllers: bool) -> list[str]:
    """The API server with the authorization of a real cluster, on loopback."""
    # Without the controller manager nobody makes a namespace's default service account, and no pod could be created.
    without_accounts = [] if with_controllers else ["--disable-admission-plugins=ServiceAccount"]
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={files.serving_certificate}",
        f"--tls-private-key-file={files.serving_key}",
        f"--client-ca-file={files.ca}",
        f"--cert-dir={files.scratch}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={files.tokens_key}",
        f"--service-account-key-file={files.tokens_public_key}",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        # The Service `kubernetes` needs no endpoints here, and a loopback address would not be a legal one.
        "--endpoint-reconciler-type=none",
        "--v=1",
        *without_accounts,
    ]


def controller_manager(ports: Ports, files: Files, kubeconfig: Path) -> list[str]:
    """The controllers that make pods; those that judge nodes by a kubelet's heartbeat are off, for no kubelet runs."""
    return [
        *_client(kubeconfig),
        *_serving(ports.controller_manager, files),
        f"--service-account-private-key-file={files.tokens_key}",
        f"--root-ca-file={files.ca}",
        # Without it the controllers act as one user who may not create pods.
        "--use-service-account-credentials=true",
        # At the default of 20 calls a second it takes five seconds to give each controller its account.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",
    ]


def scheduler(ports: Ports, files: Files, kubeconfig: Path) -> list[str]:
    """The stock scheduler."""
    return [*_client(kubeconfig), *_serving(ports.scheduler, files)]


def _client(kubeconfig: Path) -> list[str]:
    flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [*(f"--{flag}={kubeconfig}" for flag in flags), "--leader-elect=false"]


def _serving(port: int, files: Files) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving_certificate}",
        f"--tls-private-key-file={files.serving_key}",
        f"--cert-dir={files.scratch}",
        # Whose certificates to trust is said here; looked up, a CA for proxies is missed, and the log is full of it.
        f"--client-ca-file={files.ca}",
        "--authentication-skip-lookup=true",
    ]
