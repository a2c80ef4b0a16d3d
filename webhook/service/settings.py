"""The settings: one YAML file as frozen values. A fault stops the start, and all are told at once.

The file is read again when it changes (``settings_watch``); what needs a restart is named in ``settings_restart``.
The form is ``settings.schema.json``; a key there is the field's name here in camel case. What the schema cannot say
(two keys that contradict each other) is checked in ``settings_file``.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final

from webhook.core.capacity import CONTROLLERS, DEFAULT_MODES
from webhook.core.capacity import Mode as OutcomeMode
from webhook.core.dialects import DIALECTS
from webhook.core.findings import Family
from webhook.core.ledger.verdicts import MachineClass, Outcome
from webhook.core.modes import Enforcement, Mode
from webhook.wire.workload_kinds import WorkloadKind

CLOSING_SECONDS: Final = 2.0
"""Of ``graceful_seconds``, the last: idle connections are closed after all, answers on their way leave, threads end."""


class Role(enum.Enum):
    """Which endpoints a process serves (``DESIGN.md`` 1)."""

    RULES = "rules"
    """mutate and validate: stateless, any number of processes."""
    LEDGER = "ledger"
    """capacity and bind: one process with the picture of the cluster."""
    BOTH = "both"

    @property
    def has_rules(self) -> bool:
        """Whether mutate and validate are served."""
        return self is not Role.LEDGER

    @property
    def has_ledger(self) -> bool:
        """Whether capacity and bind are served."""
        return self is not Role.RULES


def _tuple_of_texts(raw: list[str]) -> tuple[str, ...]:
    return tuple(raw)


def _family_modes(raw: Mapping[str, str]) -> Mapping[Family, Mode]:
    return MappingProxyType({Family(family): Mode(mode) for family, mode in raw.items()})


def _outcome_modes(raw: Mapping[str, str]) -> Mapping[Outcome, OutcomeMode]:
    return MappingProxyType({Outcome(outcome): OutcomeMode(mode) for outcome, mode in raw.items()})


def _all_outcome_modes(raw: Mapping[str, str]) -> Mapping[Outcome, OutcomeMode]:
    return MappingProxyType({**DEFAULT_MODES, **_outcome_modes(raw)})


def _by_namespace(reader: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda raw: MappingProxyType({namespace: reader(modes) for namespace, modes in raw.items()})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How calls are taken."""

    bind: str = "127.0.0.1:8443"
    """HOST:PORT of the admission port. Loopback by default: what is reachable must be asked for."""
    probe_bind: str = ""
    """HOST:PORT of probes and metrics, plain HTTP; empty: none."""
    role: Role = field(metadata={"read": Role}, default=Role.BOTH)
    """Which endpoints are served."""
    workers: int = 1
    """Processes. More than one only for the role ``rules``: the ledger is one."""
    threads: int = 8
    """Decisions in flight in each process. Connections take no thread, so few are enough (``serve/DECISIONS.md``)."""
    keepalive_seconds: float = 120.0
    """The API server closes idle connections after 90 s; who closes first must be it, so 91 at least."""
    graceful_seconds: float = 10.0
    """Until a stopping process is ended by force; it ends earlier once its clients have closed their connections. Well
    below Kubernetes' grace period of 30 s; the chart grants more, for API servers close idle ones after 90 s."""
    drain_seconds: float = 5.0
    """How long a stopping process that is not ready any more still takes new connections, while the news spreads."""
    handshake_seconds: float = 5.0
    """From a connect to the end of its TLS handshake."""
    request_seconds: float = 10.0
    """From a request's first byte to its last."""
    max_connections: int = 2048
    """Open connections of each process; above it the one that has proved least is closed."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The serving certificate; files are read again when they change."""

    cert_file: str = ""
    """PEM, the leaf first."""
    key_file: str = ""
    """PEM, unencrypted."""
    client_ca_file: str = ""
    """PEM of the authorities that may sign clients; empty: clients need no certificate."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, as JSON lines on standard error."""

    level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``. A refusal or a change is ``info``; who was let through
    without a word is never logged."""


@dataclass(frozen=True, slots=True)
class TimeoutSettings:
    """The longest a caller is taken to wait, by endpoint; a shorter ``?timeout=`` counts instead."""

    # The time-outs of the webhook configurations (DESIGN.md 5).
    mutate_seconds: float = 2.0
    validate_seconds: float = 3.0
    capacity_seconds: float = 2.0
    bind_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The stateless rules."""

    enforcement: Enforcement = field(metadata={"read": Enforcement}, default=Enforcement.DENY)
    """``warn`` lets everything through, with warnings, whatever the modes say: for the first days."""
    families: Mapping[Family, Mode] = field(
        metadata={"read": _family_modes}, default_factory=lambda: MappingProxyType({})
    )
    """Mode of each rule family: ``deny`` (the default), ``warn`` or ``off``."""
    namespaces: Mapping[str, Mapping[Family, Mode]] = field(
        metadata={"read": _by_namespace(_family_modes)}, default_factory=lambda: MappingProxyType({})
    )
    """Overrides by the namespace's name, never by a label: whoever is judged could write that."""
    result_writers: tuple[str, ...] = field(metadata={"read": _tuple_of_texts}, default=())
    """Exact names of users that may write result annotations; empty: a change of these only warns."""
    dialects: tuple[str, ...] = field(
        metadata={"read": _tuple_of_texts}, default=tuple(dialect.name for dialect in DIALECTS)
    )
    """Whose pods are judged."""


@dataclass(frozen=True, slots=True)
class CapacitySettings:
    """The ledger's questions."""

    outcomes: Mapping[Outcome, OutcomeMode] = field(
        metadata={"read": _all_outcome_modes}, default_factory=lambda: DEFAULT_MODES
    )
    """What each outcome does: ``deny``, ``wait``, ``warn`` or ``off``."""
    namespaces: Mapping[str, Mapping[Outcome, OutcomeMode]] = field(
        metadata={"read": _by_namespace(_outcome_modes)}, default_factory=lambda: MappingProxyType({})
    )
    """Overrides by the namespace's name."""
    picture_file: str = ""
    """A picture of the cluster in a file, instead of a live one; empty: none."""
    machine_classes: tuple[MachineClass, ...] = ()
    """Kinds of machine that nodes belong to by their labels (``webhook/wire/machine-class.schema.json``)."""
    schedulers: tuple[str, ...] = field(
        metadata={"read": _tuple_of_texts}, default=("default-scheduler", "koord-scheduler")
    )
    """Values of ``spec.schedulerName`` whose behaviour is known; for others the outcome is ``unknown``."""
    controllers: tuple[str, ...] = field(metadata={"read": _tuple_of_texts}, default=tuple(sorted(CONTROLLERS)))
    """Exact names of users whose creates nobody watches: their pods wait where a person's would be refused."""
    guards_bindings: bool = True
    """Whether the webhook on ``pods/binding`` is installed; only then may pods be let through to wait."""
    answer_seconds: float = 60.0
    """How long the pods bound to a node just before hold up others while its kubelet has not said that it took them.

    A kubelet answers within moments, a busy one within seconds; one that is Ready and never does must not hold up
    every equal pod for ever.
    """


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The live cluster behind the ledger; each part of it can be left out."""

    live: bool = False
    """Whether the ledger follows a cluster; else it knows what ``capacity.pictureFile`` says, or nothing."""
    kubeconfig: str = ""
    """Path; empty: the pod's service account, else the user's own kubeconfig."""
    context: str = ""
    """Of the kubeconfig; empty: its current one."""
    namespace: str = ""
    """Where the Lease, the EndpointSlice and the checkpoint are."""
    lease: str = ""
    """Name of the Lease by which one of several processes leads; empty: this one is alone and leads always."""
    service: str = ""
    """Name of the Service without selector whose EndpointSlice the leader writes; empty: none."""
    advertise: str = ""
    """IP:PORT by which the API server reaches this process, for that EndpointSlice; empty: ``server.bind``."""
    checkpoint: str = ""
    """Name of the ConfigMaps that keep replayed places over a restart (NAME-0, NAME-1, ...); empty: none."""
    steers: bool = True
    """Whether a pod whose binding was refused is nominated to the node that fits; needs ``patch`` on ``pods/status``.
    Without it a stock scheduler may try the refused node for ever."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is set."""

    server: ServerSettings = field(default_factory=ServerSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    timeouts: TimeoutSettings = field(default_factory=TimeoutSettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    capacity: CapacitySettings = field(default_factory=CapacitySettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    workloads: tuple[WorkloadKind, ...] = ()
    """Further kinds that hold pod templates (``webhook/wire/workload_rows.py``)."""


SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "server": ServerSettings,
        "tls": TlsSettings,
        "log": LogSettings,
        "timeouts": TimeoutSettings,
        "rules": RuleSettings,
        "capacity": CapacitySettings,
        "cluster": ClusterSettings,
    }
)


def key_of(name: str) -> str:
    """Return a field's key in the file: ``cert_file`` is ``certFile``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def settings_from(
    document: Mapping[str, Any], workloads: tuple[WorkloadKind, ...] = (), classes: tuple[MachineClass, ...] = ()
) -> Settings:
    """Return the settings of a ``document`` that the schema has let pass; ``workloads`` and ``classes`` are read."""
    sections = {name: _section(kind, document.get(name, {})) for name, kind in SECTIONS.items()}
    sections["capacity"] = replace(sections["capacity"], machine_classes=classes)
    return Settings(**sections, workloads=workloads)


def _section(kind: type, raw: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an instance of kind
    values = {
        each.name: each.metadata.get("read", lambda value: value)(raw[key_of(each.name)])
        for each in fields(kind)
        if key_of(each.name) in raw
    }
    return kind(**values)
