"""A folder as the kubelet projects a ConfigMap: files are links into ``..data``, a link that is renamed at a change."""

from collections.abc import Mapping
from pathlib import Path


def project(folder: Path, files: Mapping[str, str]) -> None:
    """Make ``files`` what ``folder`` shows, all of them in one moment (``AtomicWriter`` of Kubernetes)."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    old = data.readlink() if data.is_symlink() else None
    new = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    new.mkdir()
    for name, text in files.items():
        (new / name).write_text(text)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").replace(data)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for link in folder.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink()
    if old is not None:
        for file in (folder / old).iterdir():
            file.unlink()
