"""Kinds of other projects in the API server, for as long as a block lasts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from controlplane.plane import ControlPlane
from support_pods import unique

_FOLDER = Path(__file__).parents[2] / "examples" / "workloads"
EXAMPLES = sorted(file.stem for file in _FOLDER.glob("*.yaml"))


WARNED: Mapping[str, list[str]] = MappingProxyType({"rayjob": ["CPU_ADDED_CONTAINER"]})
"""What kubectl prints of an example that is stored."""


def codes_in(printed: str) -> list[str]:
    """The codes of the warnings that kubectl printed; fails where it printed anything else."""
    found = [re.fullmatch(r"Warning: .*\[([A-Z_]+)\]", line) for line in printed.splitlines()]
    assert all(found), printed
    return [each[1] for each in found if each]


def text_of(example: str) -> str:
    """The text of an example of a workload."""
    return (_FOLDER / f"{example}.yaml").read_text()


@contextmanager
def defined_kinds(plane: ControlPlane, definitions: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Have the API server serve these CustomResourceDefinitions; yields a namespace for objects of theirs.

    Definitions and objects are gone at the end, so that another module can define the same kinds.
    """
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    namespace = unique("kinds")
    plane.create_namespace(namespace)
    try:
        plane.apply(definitions, "--server-side")
        plane.wait_for_definitions(each["metadata"]["name"] for each in definitions)
        yield namespace
    finally:
        plane.kubectl("delete", *names, "--ignore-not-found", check=True)
        plane.api("DELETE", f"/api/v1/namespaces/{namespace}").wanted()
