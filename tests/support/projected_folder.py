"""A folder as the kubelet projects a ConfigMap: files are links into ``..data``, a link that is renamed at a change."""

from collections.abc import Mapping
from pathlib import Path

from certs.directory import DirectoryStore


def project(folder: Path, files: Mapping[str, str]) -> None:
    """Make ``files`` what ``folder`` shows, all of them in one moment."""
    store = DirectoryStore(folder)
    store.write({name: text.encode() for name, text in files.items()}, store.read().version)
