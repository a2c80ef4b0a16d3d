"""Whether an UPDATE of a pod changes what a rule reads: nothing else of a running pod is any business of ours.

So a finalizer that a controller takes off, a debug container, an operator's own labels and annotations pass without a
question, also while nobody answers. ``webhook.core.match_conditions`` says the same in CEL.
"""

from collections.abc import Callable, Mapping
from itertools import chain

from webhook.core.marks import Vocabulary
from webhook.core.pod import Pod


def concerns_rules(old: Pod, new: Pod, vocabulary: Vocabulary) -> bool:
    """Return whether anything changed that a rule of the dialects reads, but for the scheduler's results.

    Of a stored pod the API server lets only metadata, images, tolerations and times change, on gated pods the node
    selection, and amounts by ``pods/resize`` (kubernetes/kubernetes:pkg/apis/core/validation, ValidatePodUpdate).
    """
    return (
        old.containers != new.containers
        or _moved(old.annotations, new.annotations, vocabulary.reads_annotation)
        or _moved(old.labels, new.labels, vocabulary.reads_label)
        or old.node_selector != new.node_selector
        or old.required_terms != new.required_terms
        or old.node_name != new.node_name
        or old.overhead != new.overhead
        or (old.pod_requests, old.pod_limits) != (new.pod_requests, new.pod_limits)
    )


def changes_results(old: Pod, new: Pod, vocabulary: Vocabulary) -> bool:
    """Return whether an annotation changed that only a scheduler may write."""
    return _moved(old.annotations, new.annotations, vocabulary.results.__contains__)


def _moved(old: Mapping[str, str], new: Mapping[str, str], is_read: Callable[[str], bool]) -> bool:
    """Return whether a key that is read came, went or has another text."""
    return old != new and any(old.get(key) != new.get(key) and is_read(key) for key in chain(old, new))
