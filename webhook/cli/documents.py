"""The documents of a file, less what nobody meant to be a manifest.

A file that is named must be one. A folder holds other YAML and JSON as well: values, pipelines, ``package.json``, a
chart's templates. Of a folder's files, documents without a ``kind`` are passed over and counted, and Helm templates
are passed over and named: what they render is what can be judged.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from webhook.cli.sources import Source
from webhook.wire.manifests import BrokenDocument, Document, read_manifests

_BRACES: Final = "{{"
_KIND: Final = re.compile(r"""^[ \t-]*["']?kind["']?[ \t]*:|"kind"[ \t]*:""", re.MULTILINE)
_HINT: Final = "If it is a Helm template, check what it renders: helm template CHART | numa-admission check -"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be judged of one file."""

    documents: tuple[Document | BrokenDocument, ...]
    foreign: int = 0
    """Documents that were passed over: they have no kind."""
    is_template: bool = False
    """Whether the whole file was passed over as a template."""


def read_documents(source: Source) -> Reading:
    """Return the documents of ``source`` that are to be judged."""
    documents = tuple(read_manifests(source.text))
    has_braces = _BRACES in source.text
    if not source.is_walked:
        return Reading(tuple(_with_hint(each) for each in documents) if has_braces else documents)
    if has_braces and (source.chart or any(isinstance(each, BrokenDocument) for each in documents)):
        return Reading((), is_template=True)
    may_be_manifest = _KIND.search(source.text) is not None
    ours = tuple(each for each in documents if _is_ours(each, may_be_manifest=may_be_manifest))
    return Reading(ours, foreign=len(documents) - len(ours))


def _is_ours(document: Document | BrokenDocument, *, may_be_manifest: bool) -> bool:
    if isinstance(document, BrokenDocument):
        return may_be_manifest
    return isinstance(document.value, dict) and isinstance(document.value.get("kind"), str)


def _with_hint(document: Document | BrokenDocument) -> Document | BrokenDocument:
    if isinstance(document, BrokenDocument):
        return replace(document, problem=f"{document.problem} {_HINT}.")
    return document
