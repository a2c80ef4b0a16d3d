"""The settings of the live cluster: what contradicts itself stops the start."""

import pytest

from webhook.service.settings_file import SettingsError, parse_settings

WHOLE = "live: true, namespace: system, lease: ledger, service: ledger, advertise: '10.0.0.1:8443', checkpoint: places"


@pytest.mark.parametrize(
    "cluster, more, fault",
    [
        pytest.param("live: true, lease: a", "", "cluster.namespace: found nothing beside lease", id="no namespace"),
        pytest.param(
            "live: true, namespace: s, service: a, advertise: '10.0.0.1:1'",
            "",
            "cluster.lease: found nothing",
            id="no lease",
        ),
        pytest.param(
            "live: true, namespace: s, lease: a, service: a, advertise: '0.0.0.0:8443'",
            "",
            "cluster.advertise: found 0.0.0.0:8443",
            id="an address that nobody reaches",
        ),
        pytest.param(
            "live: true, namespace: s, lease: a, service: a, advertise: 'host:8443'",
            "",
            "cluster.advertise: found host:8443",
            id="a name where an address is needed",
        ),
        pytest.param("live: true", "server: {role: rules}", "cluster.live: found true with role rules", id="no ledger"),
        pytest.param(
            "live: true", "capacity: {pictureFile: a.yaml}", "beside capacity.pictureFile", id="a picture as well"
        ),
    ],
)
def test_what_contradicts_itself(cluster, more, fault):
    with pytest.raises(SettingsError) as caught:
        parse_settings(f"cluster: {{{cluster}}}\n{more}\n".encode())
    assert fault in str(caught.value)


@pytest.mark.parametrize("cluster", [WHOLE, "live: true", "live: false, lease: a"])
def test_what_is_well(cluster):
    assert parse_settings(f"cluster: {{{cluster}}}\n".encode()).cluster.live is cluster.startswith("live: true")
