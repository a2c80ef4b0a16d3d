"""An object that holds pod templates, read by its row of ``webhook.wire.workload_table``.

Nothing is raised for any JSON value: what is null or missing is no template, what has a wrong type is noted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.core.pod import Container, ContainerKind, Malformed, Pod, PodTemplate, Workload
from webhook.wire.numa_spec import NUMA_SPEC_HOMES, SpecHome
from webhook.wire.pods import read_container, read_pod, read_pod_parts
from webhook.wire.shapes import JsonMap, child, describe, keyed, read_count, read_list, read_map, read_text
from webhook.wire.workload_kinds import (
    EACH_ITEM,
    EACH_MEMBER,
    Count,
    SurgeRule,
    TemplateRule,
    WorkloadKind,
    has_wildcards,
    steps_of,
)

Keys = tuple[str | int, ...]
"""Which item or member each wildcard stands for."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A value that a path leads to, its written path, and what the wildcards stand for."""

    path: str
    value: object
    keys: Keys


def read_workload(
    raw: object, row: WorkloadKind, *, namespace: str = "", homes: tuple[SpecHome, ...] = NUMA_SPEC_HOMES
) -> Workload:
    """Return the workload that ``raw`` describes, with every template that is there."""
    faults: list[Malformed] = []
    root = read_map(raw, "", faults)
    metadata = read_map(root.get("metadata"), "metadata", faults)
    namespace = namespace or read_text(metadata.get("namespace"), "metadata.namespace", faults)
    templates: list[PodTemplate] = []
    for rule in row.templates:
        for place in _places(root, rule.path, faults):
            if not isinstance(place.value, dict):
                faults.append(Malformed(place.path, describe(place.value), "a map"))
                continue
            pod = _read_template(root, place.value, rule, namespace, homes)
            replicas = _replicas(root, rule.counts, place.keys, faults)
            added = tuple(_added(root, place, rule))
            templates.append(PodTemplate(place.path, pod, replicas, _elsewhere(root, place, rule), added))
    first = templates[0].replicas if templates else None
    return Workload(
        group=row.group,
        kind=row.kind,
        namespace=namespace,
        name=read_text(metadata.get("name"), "metadata.name", faults),
        templates=tuple(templates),
        surge=_surge(root, row.surge, first or 0, faults) if row.surge else 0,
        malformed=tuple(faults),
    )


def workload_annotations(raw: object, row: WorkloadKind) -> Iterator[Mapping[str, object]]:
    """Yield the annotations of each template, unread, for a look at their keys before the templates are parsed."""
    if not isinstance(raw, dict):
        return
    for rule in row.templates:
        for place in _places(raw, rule.path, []):
            if isinstance(place.value, dict):
                metadata = _metadata(raw, place.value, rule)
                annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
                if isinstance(annotations, dict):
                    yield annotations


def has_same_templates(new: JsonMap, old: JsonMap, row: WorkloadKind) -> bool:
    """Return whether the pod templates of two objects as they came are the same: replicas and all else may differ."""
    return all(
        _places(new, rule.path, []) == _places(old, rule.path, [])
        and (not rule.metadata or _metadata(new, {}, rule) == _metadata(old, {}, rule))
        for rule in row.templates
    )


def _read_template(root: JsonMap, raw: JsonMap, rule: TemplateRule, namespace: str, homes: tuple[SpecHome, ...]) -> Pod:
    pod = _read_pod_of(root, raw, rule, namespace, homes)
    return replace(pod, is_partial=True) if rule.partial else pod


def _read_pod_of(root: JsonMap, raw: JsonMap, rule: TemplateRule, namespace: str, homes: tuple[SpecHome, ...]) -> Pod:
    if not rule.inline and not rule.metadata:
        return read_pod(raw, namespace=namespace, homes=homes)
    faults: list[Malformed] = []
    pod = read_pod_parts(
        read_map(_metadata(root, raw, rule), "metadata", faults),
        raw if rule.inline else read_map(raw.get("spec"), "spec", faults),
        status={},
        namespace=namespace,
        faults=faults,
        homes=homes,
    )
    members = [name for name in rule.containers if raw.get(name) is not None]
    if not members:
        return pod
    faults = [*pod.malformed]
    further = [read_container(raw[name], ContainerKind.APP, child("spec", name), faults) for name in members]
    return replace(pod, containers=(*pod.containers, *further), malformed=tuple(faults))


def _added(root: JsonMap, place: _Place, rule: TemplateRule) -> Iterator[Container]:
    for each in rule.added:
        if each.member and place.keys[-1:] != (each.member,):
            continue
        if each.only_where and _value_at(root, each.only_where, ()) is None:
            continue
        resources = {"requests": {"cpu": each.cpu}, "limits": {"cpu": each.cpu_limit}}
        raw = {"name": each.name, "resources": resources}
        yield read_container(raw, ContainerKind.INIT, "spec.initContainers", [])


def _elsewhere(root: JsonMap, place: _Place, rule: TemplateRule) -> Mapping[str, str]:
    """Return where the parts of the pod stand that are not below the template (``PodTemplate.elsewhere``)."""
    if not rule.inline and not rule.metadata:
        return {}
    found = {"spec": place.path} if rule.inline else {}
    if rule.metadata:
        found["metadata"] = rule.metadata[-1]
    for path in rule.metadata:
        holder = _value_at(root, path, ())
        for field in ("labels", "annotations"):
            entries = holder.get(field) if isinstance(holder, dict) else None
            for key in entries if isinstance(entries, dict) else ():
                if isinstance(key, str):
                    found[keyed(f"metadata.{field}", key)] = keyed(child(path, field), key)
    return found


def _metadata(root: JsonMap, template: JsonMap, rule: TemplateRule) -> object:
    """Return the metadata that reaches the pod: the template's own, or what several maps say together."""
    if not rule.metadata:
        return template.get("metadata")
    merged: dict[str, object] = {}
    for field in ("labels", "annotations"):
        entries: dict[str, object] = {}
        for path in rule.metadata:
            holder = _value_at(root, path, ())
            found = holder.get(field) if isinstance(holder, dict) else None
            if isinstance(found, dict):
                entries.update(found)
            elif found is not None:
                merged[field] = found  # of a wrong type: left for the pod's reader to complain of
        merged.setdefault(field, entries)
    return merged


def _places(root: JsonMap, path: str, faults: list[Malformed]) -> list[_Place]:
    """Return each value that is not null at ``path``."""
    if not has_wildcards(path):
        value: object = root
        for step in steps_of(path):
            if not isinstance(value, dict):
                break  # a fault: the walk below names it
            value = value.get(step)
            if value is None:
                return []
        else:
            return [_Place(path, value, ())]
    places = [_Place("", root, ())]
    for step in steps_of(path):
        places = [further for place in places for further in _step(place, step, faults)]
    return places


def _step(place: _Place, step: str, faults: list[Malformed]) -> list[_Place]:
    if step == EACH_ITEM:
        items = enumerate(read_list(place.value, place.path, faults))
        return [_Place(f"{place.path}[{i}]", item, (*place.keys, i)) for i, item in items if item is not None]
    members = read_map(place.value, place.path, faults)
    if step == EACH_MEMBER:
        return [
            _Place(child(place.path, str(key)), member, (*place.keys, key))
            for key, member in members.items()
            if member is not None
        ]
    value = members.get(step)
    return [] if value is None else [_Place(child(place.path, step), value, place.keys)]


def _value_at(root: object, path: str, keys: Keys) -> object:
    """Return the value at ``path`` with its wildcards standing for ``keys``; None where the way does not exist."""
    value, keys_left = root, iter(keys)
    for step in steps_of(path):
        key = next(keys_left) if step in (EACH_ITEM, EACH_MEMBER) else step
        if isinstance(key, int) and isinstance(value, list):
            value = value[key]
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value


def _written(path: str, keys: Keys) -> str:
    """Return ``path`` as a reader finds it, with ``keys`` in the places of its wildcards."""
    if not has_wildcards(path):
        return path
    written, keys_left = "", iter(keys)
    for step in steps_of(path):
        if step == EACH_ITEM:
            written = f"{written}[{next(keys_left)}]"
        else:
            written = child(written, str(next(keys_left)) if step == EACH_MEMBER else step)
    return written


def _replicas(root: JsonMap, counts: tuple[Count, ...], keys: Keys, faults: list[Malformed]) -> int | None:
    """Return the product of ``counts``; None where there is none or one cannot be read."""
    product = 1
    for count in counts:
        number = _number(root, count, keys, faults)
        if number is None:
            return None
        product *= number
    return product if counts else None


def _number(root: JsonMap, count: Count, keys: Keys, faults: list[Malformed]) -> int | None:
    number: int | None = count.default
    if count.path:
        found = _value_at(root, count.path, keys)
        if found is not None:
            number = read_count(found, _written(count.path, keys), faults)
    if number is None:
        return None
    if count.at_most:
        cap = read_count(_value_at(root, count.at_most, keys), _written(count.at_most, keys), faults)
        number = number if cap is None else min(number, cap)
    if count.less_one_where and _value_at(root, count.less_one_where, keys) is not None:
        number = max(0, number - 1)
    return number


def _surge(root: JsonMap, rule: SurgeRule, replicas: int, faults: list[Malformed]) -> int:
    """Return the pods beyond ``replicas``; a share of them is rounded up as the Deployment controller does."""
    if rule.strategy and _value_at(root, rule.strategy, ()) == rule.off:
        return 0
    surge = _value_at(root, rule.path, ())
    if surge is None:
        surge = rule.default
    if isinstance(surge, str):
        number = surge.removesuffix("%")
        if number.isascii() and number.isdigit() and len(number) < 10:
            return -(-int(number) * replicas // 100) if surge.endswith("%") else int(number)
        faults.append(Malformed(_written(rule.path, ()), describe(surge), "a whole number or a share such as 25%"))
        return 0
    return read_count(surge, _written(rule.path, ()), faults) or 0
