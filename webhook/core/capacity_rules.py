"""How the ledger's outcomes weigh: modes by outcome and namespace, who may wait, and how long places are kept."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from webhook.core.ledger.classes import MachineClass
from webhook.core.ledger.verdicts import Outcome
from webhook.core.marks import Vocabulary
from webhook.core.modes import Rules


class Mode(enum.Enum):
    """What an outcome does to a request."""

    DENY = "deny"
    WAIT = "wait"
    """Allow at create and let the bind guard decide; the user is warned."""
    WARN = "warn"
    OFF = "off"


DEFAULT_MODES: Final[Mapping[Outcome, Mode]] = MappingProxyType(
    {
        Outcome.FITS: Mode.OFF,
        Outcome.UNKNOWN: Mode.WARN,
        Outcome.NEVER: Mode.DENY,
        Outcome.WOULD_FAIL: Mode.DENY,
        Outcome.WOULD_WAIT: Mode.WARN,
    }
)

CONTROLLERS: Final = frozenset(
    f"system:serviceaccount:kube-system:{name}"
    for name in (
        "replicaset-controller",
        "replication-controller",
        "statefulset-controller",
        "daemon-set-controller",
        "job-controller",
        "cronjob-controller",
    )
)
"""Users whose creates nobody watches; told by the request's user, never by ownerReferences, which anyone can write."""

GANG_KEYS: Final = frozenset(
    {
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "gang.scheduling.koordinator.sh/name",
        "pod-group.scheduling.sigs.k8s.io/name",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-name",
    }
)
"""Labels and annotations that make a pod a member of a gang or queue, which must not be split by a refusal."""


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """How the ledger's outcomes weigh."""

    modes: Mapping[Outcome, Mode] = field(default_factory=lambda: DEFAULT_MODES)
    namespace_modes: Mapping[str, Mapping[Outcome, Mode]] = field(default_factory=dict)
    """Overrides by namespace name; never by a label, which a tenant could write."""
    classes: tuple[MachineClass, ...] = ()
    known_schedulers: frozenset[str] | None = frozenset({"default-scheduler", "koord-scheduler"})
    controllers: frozenset[str] = CONTROLLERS
    guards_bindings: bool = True
    """Whether the bind guard is on: only then may a pod of a controller wait instead of being refused."""
    claim_seconds: float = 5.0
    """How long a claim lives unless the watch shows the pod: a stored pod shows at once, a refused one never."""
    binding_seconds: float = 60.0
    """How long an admitted binding counts unless the watch shows it: longer than an API server's restart (30 s on a
    busy machine), for what has ended by then is charged as a guess once a list shows it. One that came to nothing is
    tried again long before, and the new try counts in its place."""
    steering_seconds: float = 60.0
    """How long a refused pod keeps its place on the node it is steered to: the scheduler's longest back-off is 11 s."""
    answer_seconds: float = 60.0
    """How long a bound pod that its kubelet has not answered for counts as in flight, so that its order is open."""
    most_tries_on_guess: int = 3
    """Refusals of one pod that rest on guesses before the guard gives way."""
    vocabulary: Vocabulary = field(default_factory=lambda: Rules().vocabulary)
    """The marks that the stateless rules look for: what a mark demands of the CPUs is for them to say."""

    def mode(self, outcome: Outcome, namespace: str) -> Mode:
        """Return what ``outcome`` does in ``namespace``."""
        override = self.namespace_modes.get(namespace, {}).get(outcome)
        return override if override is not None else self.modes[outcome]
