"""``certs rotate --secret``: no name leaves the serving certificate because somebody forgot to give it."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cluster.small_api import SmallApi, small_api

from certs.pki import read_certificates
from webhook.cli.certs import certs

KEPT = "/api/v1/namespaces/numa/secrets/numa-tls"
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/numa" for kind in ("mutating", "validating")
)
BOTH = ("--service=numa-rules", "--service=numa-ledger")
EXTRA = ("--dns=numa.example.com", "--dns=*.corp.example", "--ip=10.0.0.1", "--ip=fd00::1")


@pytest.fixture
def api() -> Iterator[tuple[SmallApi, str]]:
    with small_api() as found:
        found[0].store(KEPT, {"metadata": {"name": "numa-tls"}})
        for path in CONFIGURATIONS:
            found[0].store(path, {"metadata": {"name": "numa"}, "webhooks": []})
        yield found


@pytest.fixture
def rotate(api: tuple[SmallApi, str], tmp_path: Path) -> Callable[..., Result]:
    """One call of the command; the Secret holds a leaf with every name before the first."""
    kubeconfig = tmp_path / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": api[1]}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    kubeconfig.write_text(json.dumps({**named, "current-context": "c"}))

    def run(*arguments: str) -> Result:
        where = ("--secret=numa/numa-tls", "--configurations=numa", f"--kubeconfig={kubeconfig}")
        return CliRunner().invoke(certs, ["rotate", *where, *arguments])

    assert run(*BOTH, *EXTRA).output.startswith("start")
    return run


def names(api: tuple[SmallApi, str]) -> set[str]:
    """What the leaf in the Secret carries."""
    leaf, *_ = read_certificates(base64.b64decode(api[0].objects[KEPT]["data"]["tls.crt"]))
    return {*leaf.names.dns, *leaf.names.ip}


@pytest.mark.parametrize(("ask", "given", "told"), [
    pytest.param("nothing", BOTH, " ".join(EXTRA).replace("=", " "), id="names-of-the-values-when-it-is-due"),
    pytest.param("leaf", BOTH, " ".join(EXTRA).replace("=", " "), id="names-of-the-values"),
    pytest.param("authority", (BOTH[0], *EXTRA), "--service numa-ledger", id="a-service"),
    pytest.param("leaf", (BOTH[1], *EXTRA[:2], *EXTRA[3:]), "--service numa-rules --ip 10.0.0.1",
                 id="a-service-and-an-address"),
    pytest.param("leaf", (*BOTH, *EXTRA[1:], "--dns=other.example.com"), "--dns numa.example.com",
                 id="another-name-instead"),
])  # fmt: skip
def test_name_of_the_leaf_that_is_not_given_is_asked_for(
    api: tuple[SmallApi, str], rotate: Callable[..., Result], ask: str, given: tuple[str, ...], told: str
) -> None:
    before = api[0].objects[KEPT]
    done = rotate(f"--ask={ask}", *given)
    assert done.exit_code == 2, done.output
    assert f"Give {told} as well, or --drop-names" in " ".join(done.output.split())
    assert api[0].objects[KEPT] == before


@pytest.mark.parametrize("given", [
    pytest.param((*BOTH, *EXTRA), id="all"),
    pytest.param((*BOTH, *EXTRA, "--dns=new.example.com"), id="one-more"),
    pytest.param((*BOTH, "--dns=NUMA.example.com.", *EXTRA[1:3], "--ip=fd00:0::1"), id="spelt-otherwise"),
])  # fmt: skip
def test_leaf_is_renewed_where_every_name_is_given(
    api: tuple[SmallApi, str], rotate: Callable[..., Result], given: tuple[str, ...]
) -> None:
    carried = names(api)
    done = rotate("--ask=leaf", *given)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("renew leaf")
    assert names(api) >= carried


def test_names_are_dropped_on_purpose(api: tuple[SmallApi, str], rotate: Callable[..., Result]) -> None:
    done = rotate("--ask=leaf", *BOTH, "--drop-names")
    assert done.exit_code == 0, done.output
    assert "numa-ledger.numa.svc" in names(api)
    assert not {"numa.example.com", "10.0.0.1"} & names(api)


def test_secret_whose_leaf_cannot_be_read_is_mended(api: tuple[SmallApi, str], rotate: Callable[..., Result]) -> None:
    """It carries no names that could be lost."""
    held = api[0].objects[KEPT]
    api[0].store(KEPT, {**held, "data": {**held["data"], "tls.crt": base64.b64encode(b"no PEM").decode()}})
    done = rotate(*BOTH)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("renew leaf")
