"""Whether an UPDATE of a pod changes what a rule reads: nothing else of a running pod is any business of ours.

So a finalizer that a controller takes off, a debug container, an operator's own labels and annotations pass without a
question, also while nobody answers. ``webhook.core.match_conditions`` says the same in CEL.
"""

from collections.abc import Callable, Mapping

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
        or _moved(old.labels, new.labels, lambda key, _text: vocabulary.reads_label(key))
        or old.node_selector != new.node_selector
        or old.required_terms != new.required_terms
        or old.node_name != new.node_name
        or old.overhead != new.overhead
        or (old.pod_requests, old.pod_limits) != (new.pod_requests, new.pod_limits)
    )


def changes_results(old: Pod, new: Pod, vocabulary: Vocabulary) -> bool:
    """Return whether an annotation changed that only a scheduler may write."""
    return _moved(old.annotations, new.annotations, lambda key, _text: key in vocabulary.results)


def _moved(old: Mapping[str, str], new: Mapping[str, str], is_read: Callable[[str, str], bool]) -> bool:
    """Return whether an entry that is read came, went, or has or had another text."""
    return old != new and (_has_other(old, new, is_read) or _has_other(new, old, is_read))


def _has_other(here: Mapping[str, str], there: Mapping[str, str], is_read: Callable[[str, str], bool]) -> bool:
    return any(there.get(key) != text and is_read(key, text) for key, text in here.items())
