"""Random questions for Kubernetes' own code (``tests/k8srules``), each with the same thing as our own value."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from webhook.core.node_selection import NodeFacts, Taint
from webhook.core.pod import Container, ContainerKind, NodeSelectorTerm, Operator, Pod, Requirement, Toleration
from webhook.core.quantity import parse_quantity

Json = dict[str, Any]

NO_GO = 3
"""Exit code of ``tests/k8srules/build`` where there is no Go."""


def build() -> Path | None:
    """Return the path of the built program (cached outside the tree), or None where there is no Go."""
    script = Path(__file__).parent.parent / "k8srules" / "build"
    done = subprocess.run([script], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == NO_GO:
        return None
    if done.returncode:
        raise AssertionError(f"{script} failed:\n{done.stderr}")
    return Path(done.stdout.strip())


def ask(program: Path, questions: Iterable[Json | str]) -> list[Any]:
    """Return the program's answers, one for each question (an object, or its raw JSON line)."""
    lines = [question if isinstance(question, str) else json.dumps(question) for question in questions]
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return answers


# --- quantities ---

_SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_JUNK = '0123456789.eEinumkKMGTP+-_ xaN,\t\n"\\\u00a0\u0663\uff11'
_PLAIN = ["24", "1", "0", "1500m", "0.5", "64Gi", "100", "250m", "1e3", "2.5", "48", "96", "512Mi"]


def quantity_texts(random: Random, count: int) -> Iterator[str]:
    """Yield texts: plain ones, ones of every shape of the grammar, and ones with a letter changed."""
    for _ in range(count):
        roll = random.random()
        if roll < 0.1:
            yield random.choice(_PLAIN)
        elif roll < 0.7:
            yield _grammatical(random)
        elif roll < 0.95:
            yield _changed(random, _grammatical(random))
        else:
            yield "".join(random.choices(_JUNK, k=random.randrange(6)))


def is_beyond(text: str) -> bool:
    """Return whether a text's exponent is one that we refuse, and that keeps Kubernetes busy for minutes."""
    exponents = [int(digits) for digits in re.findall(r"[eE]([+-]?[0-9]+)", text, re.ASCII)]
    return any(abs((exponent + 2**31) % 2**32 - 2**31) > 512 for exponent in exponents)


def _grammatical(random: Random) -> str:
    sign = random.choice(["", "", "", "+", "-"])
    zeros = "0" * random.choice([0, 0, 0, 1, 3, 20])
    whole = _digits(random, random.choice([0, 1, 1, 2, 3, 9, 17, 18, 19, 20, 40]))
    fraction = random.choice(["", "", "."]) and "." + _digits(random, random.choice([0, 1, 2, 3, 9, 10, 18, 30]))
    if random.random() < 0.6:
        suffix = random.choice(_SUFFIXES)
    else:
        exponent = random.choice([random.randrange(-30, 31), random.randrange(-500, 501), random.randrange(-3, 4)])
        if random.random() < 0.1:
            exponent += random.choice([-1, 1]) * 2 ** random.choice([32, 33, 40, 62])
        plus = "+" if exponent >= 0 and random.random() < 0.3 else ""
        suffix = f"{random.choice('eE')}{plus}{exponent}"
    return f"{sign}{zeros}{whole}{fraction}{suffix}"


def _digits(random: Random, count: int) -> str:
    kind = random.random()
    if kind < 0.2:
        return "9" * count
    if kind < 0.4:
        return (str(random.randrange(1, 10)) + "0" * count)[:count]
    return "".join(random.choices("0123456789", k=count))


def _changed(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    cut = random.choice([0, 0, 1])
    return text[:at] + random.choice(["", random.choice(_JUNK)]) + text[at + cut :]


def spellings(random: Random, millis: int) -> str:
    """Return one of many texts that mean ``millis`` thousandths."""
    forms = [
        f"{millis}m",
        f"+{millis}m",
        f"00{millis}m",
        f"{millis}000u",
        f"{millis}e-3",
        f"{millis}0E-4",
        f"{millis // 1000}.{millis % 1000:03d}",
        f"{millis // 1000}.{millis % 1000:03d}0000000000",
        f"{millis // 10**6}.{millis % 10**6:06d}k",
    ]
    if millis % 1000 == 0:
        forms += [str(millis // 1000), f"{millis // 1000}.", f"{millis // 1000}.0"]
    if millis % 1024000 == 0:
        forms += [f"{millis // 1024000}Ki"]
    return random.choice(forms)


# --- nodes ---

_KEYS = ["zone", "ack.node.gpu.schedule", "example.com/pool", "a", "bad key", "x/y/z", "", "UP/er", "/a", "n" * 64, "é"]
_VALUES = ["a", "b", "topology", "5", "-5", "+7", "007", "", "bad value", "9" * 25, "9223372036854775807", "_x", "x_"]
_VALUES += ["a" * 63, "a" * 64, "5.0", "\u0665", "10", "4"]
_OPERATORS = [operator.value for operator in Operator]
_EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]


@dataclass(frozen=True)
class Place:
    """A pod and a node, as Kubernetes reads them and as we do."""

    question: Json
    pod: Pod
    node: NodeFacts
    comparison_operators: bool


def places(random: Random, count: int) -> Iterator[Place]:
    """Yield pods with selectors, affinity and tolerations, each with a node that some of them fit."""
    for _ in range(count):
        # Most cases keep to a few well-formed words, so that matches are frequent; the rest take any.
        sane = random.random() < 0.6
        keys, values = (_KEYS[:4], ["a", "b", "topology", "5", "10", "4", "007"]) if sane else (_KEYS, _VALUES)
        labels = {random.choice(keys): random.choice([*values, "+7", "-5"]) for _ in range(random.randrange(5))}
        name = random.choice(["node-1", "node-2", "node-1", ""])
        taints = [_taint(random) for _ in range(random.randrange(3))]
        selector = {random.choice(keys): random.choice(values) for _ in range(random.choice([0, 0, 1, 2]))}
        if labels and random.random() < 0.5:
            selector = dict(random.sample(sorted(labels.items()), 1))
        terms = (
            None
            if random.random() < 0.2
            else [_term(random, keys, values, sane) for _ in range(random.choice([0, 1, 1, 2, 3]))]
        )
        tolerations = [_toleration(random, taints) for _ in range(random.randrange(4))]
        comparison = random.random() < 0.5
        yield Place(
            question={
                "ask": "place",
                "comparisonOperators": comparison,
                "node": {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}},
                "pod": {"spec": {"nodeSelector": selector, "tolerations": tolerations, **_affinity(terms)}},
            },
            pod=Pod(
                node_selector=selector,
                required_terms=None if terms is None else tuple(map(_our_term, terms)),
                tolerations=tuple(
                    Toleration(*(toleration.get(word, "") for word in ("key", "operator", "value", "effect")))
                    for toleration in tolerations
                ),
            ),
            node=NodeFacts(
                name=name,
                labels=labels,
                taints=tuple(Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in taints),
            ),
            comparison_operators=comparison,
        )


def _affinity(terms: Sequence[Json] | None) -> Json:
    if terms is None:
        return {}
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _term(random: Random, keys: Sequence[str], values: Sequence[str], sane: bool) -> Json:
    expressions = [_requirement(random, keys, values, sane) for _ in range(random.choice([0, 1, 1, 1, 2, 3]))]
    fields = []
    if random.random() < 0.25:
        fields = [_field(random) for _ in range(random.choice([1, 1, 2]))]
    return {"matchExpressions": expressions, "matchFields": fields}


def _requirement(random: Random, keys: Sequence[str], values: Sequence[str], sane: bool) -> Json:
    operator = random.choice(_OPERATORS)
    count = {"In": 2, "NotIn": 1, "Gt": 1, "Lt": 1}.get(operator, 0)
    if not sane:
        operator = random.choice([operator, operator, operator, operator, operator, "in", "", "=="])
        count = random.choice([count, count, count, 0, 1, 2])
    if operator in {"Gt", "Lt"} and (sane or random.random() < 0.5):
        values = ["5", "0", "7", "10"]
    return {"key": random.choice(keys), "operator": operator, "values": random.choices(values, k=count)}


def _field(random: Random) -> Json:
    return {
        "key": random.choice(["metadata.name", "metadata.name", "metadata.name", "metadata.uid"]),
        "operator": random.choice(["In", "In", "NotIn", "Exists"]),
        "values": random.choices(["node-1", "node-2", ""], k=random.choice([1, 1, 1, 0, 2])),
    }


def _our_term(term: Json) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        expressions=tuple(map(_our_requirement, term["matchExpressions"])),
        fields=tuple(map(_our_requirement, term["matchFields"])),
    )


def _our_requirement(requirement: Json) -> Requirement:
    operator = requirement["operator"]
    known = Operator(operator) if operator in _OPERATORS else operator
    return Requirement(requirement["key"], known, tuple(requirement["values"]))


def _taint(random: Random) -> Json:
    return {
        "key": random.choice(["gpu", "zone", "a"]),
        "value": random.choice(["", "a", "5", "-5", "07", "9" * 19, "9" * 20]),
        "effect": random.choice(_EFFECTS),
    }


def _toleration(random: Random, taints: Sequence[Json]) -> Json:
    toleration = {
        "key": random.choice(["gpu", "zone", "a", ""]),
        "operator": random.choice(["Equal", "Exists", "", "Lt", "Gt", "exists"]),
        "value": random.choice(["", "a", "5", "-6", "07", "+5", "-0", "9" * 18]),
        "effect": random.choice([*_EFFECTS, ""]),
    }
    if taints and random.random() < 0.5:
        taint = random.choice(taints)
        toleration |= {"key": taint["key"], "effect": random.choice([taint["effect"], ""])}
        if random.random() < 0.5:
            toleration["value"] = taint["value"]
    return toleration


# --- totals and QoS ---

_RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage", "example.com/fpga"]
_POD_LEVEL = ["cpu", "memory", "hugepages-2Mi"]
_KINDS = [ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP]


@dataclass(frozen=True)
class Sum:
    """A pod as Kubernetes reads it, with its defaults, and as we do, without them."""

    question: Json
    pod: Pod


def sums(random: Random, count: int) -> Iterator[Sum]:
    """Yield pods with init containers, sidecars, apps, overhead and pod-level resources."""
    for _ in range(count):
        kinds = sorted(random.choices(_KINDS, k=random.randrange(6)), key=lambda kind: kind is ContainerKind.APP)
        equal = random.random() < 0.3  # else Guaranteed would be rare
        resources = [_resources(random, _RESOURCES, equal=equal) for _ in kinds]
        level = (
            _resources(random, _POD_LEVEL, full=True, equal=random.random() < 0.5) if random.random() < 0.3 else None
        )
        overhead = {name: _amount(random) for name in random.choice([[], [], ["cpu"], ["memory", "cpu"]])}
        yield Sum(
            question={"ask": "total", "pod": {"spec": _spec(kinds, resources, level, overhead)}},
            pod=pod_of(kinds, resources, level, overhead),
        )


def _amount(random: Random) -> str:
    return f"{random.choice([0, 500, 1000, 1000, 2000, 24000, random.randrange(10**6)])}m"


def _resources(random: Random, names: Sequence[str], *, full: bool = False, equal: bool) -> Json:
    chosen = [name for name in names if full or (equal and name in {"cpu", "memory"}) or random.random() < 0.5]
    limits = {name: _amount(random) for name in chosen}
    requests = {}
    for name, limit in limits.items():
        # Extended resources and huge pages must be equal, where both are written.
        other = limit if equal or "/" in name or name.startswith("huge") else _amount(random)
        if full or random.random() < 0.7:
            requests[name] = other
    if not full and not equal:
        limits = {
            name: limit
            for name, limit in limits.items()
            if "/" in name or name.startswith("huge") or random.random() < 0.6
        }
    return {"requests": requests, "limits": limits}


def _spec(kinds: Sequence[ContainerKind], resources: Sequence[Json], level: Json | None, overhead: Json) -> Json:
    containers: dict[bool, list[Json]] = {True: [], False: []}
    for kind, written in zip(kinds, resources, strict=True):
        filled = {"requests": {**written["limits"], **written["requests"]}, "limits": written["limits"]}
        policy = {"restartPolicy": "Always"} if kind is ContainerKind.SIDECAR else {}
        containers[kind is ContainerKind.APP].append({"name": "c", "resources": filled, **policy})
    spec: Json = {"initContainers": containers[False], "containers": containers[True], "overhead": overhead}
    return spec if level is None else {**spec, "resources": level}


def pod_of(
    kinds: Sequence[ContainerKind], resources: Sequence[Json], level: Mapping[str, Any] | None, overhead: Json
) -> Pod:
    """Return our pod of containers with the written resources, in the order of ``Pod.containers``."""
    return Pod(
        containers=tuple(
            Container("c", kind, "", _quantities(written["requests"]), _quantities(written["limits"]))
            for kind, written in zip(kinds, resources, strict=True)
        ),
        pod_requests=None if level is None else _quantities(level.get("requests", {})) or None,
        pod_limits=None if level is None else _quantities(level.get("limits", {})) or None,
        overhead=_quantities(overhead),
    )


def _quantities(written: Mapping[str, str]) -> dict[str, Any]:
    return {name: parse_quantity(text) for name, text in written.items()}
