"""Cluster pictures for tests: hypothesis strategies, and the text that stands for a value."""

import json

from hypothesis import strategies as st

GPU = "aliyun.com/gpu"


def text(**sections):
    """Return a picture's text: JSON is YAML."""
    return json.dumps(sections)


def machine_class(name="box", *, layout=None, kubelet=None, **changes):
    """Return a class of two NUMA nodes with 4 cores of 2 threads and 2 GPUs each, with the changes asked for."""
    return {
        "name": name,
        "matchLabels": {"class": name},
        "layout": {
            "numaNodes": 2,
            "coresPerNUMANode": 4,
            "threadsPerCore": 2,
            "memoryPerNUMANode": "64Gi",
            "devices": {GPU: 2},
            **(layout or {}),
        },
        "kubelet": {
            "topologyManagerPolicy": "single-numa-node",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "0,8",
            **(kubelet or {}),
        },
        **changes,
    }


@st.composite
def pictures(draw):
    """Draw a picture without faults: a few machines and pods, most of them on a node, some asking for too much."""
    numa = draw(st.sampled_from([1, 2, 4, 8]))
    layout = {
        "numaNodes": numa,
        "coresPerNUMANode": draw(st.integers(1, 6)),
        "threadsPerCore": draw(st.sampled_from([1, 2])),
        "siblings": draw(st.sampled_from(["apart", "adjacent"])),
        "devices": {GPU: draw(st.integers(0, 4))}
        if draw(st.booleans())
        else {GPU: draw(st.lists(st.integers(0, numa - 1) | st.none(), max_size=8))},
    }
    kubelet = {
        "topologyManagerPolicy": draw(st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        "reservedSystemCPUs": "0",
    }
    names = [f"node-{number}" for number in range(draw(st.integers(1, 3)))]
    pods = []
    for number in range(draw(st.integers(0, 8))):
        resources = {"cpu": draw(st.sampled_from(["1", "2", "500m", "4"])), "memory": "1Gi"}
        if draw(st.booleans()):
            resources[GPU] = draw(st.integers(0, 3))
        pod = {"name": f"pod-{number}", "resources": resources}
        if draw(st.integers(0, 3)):
            pod["node"] = draw(st.sampled_from(names))
        pods.append(pod)
    nodes = [{"name": name, "class": "box", "unschedulable": draw(st.booleans())} for name in names]
    return text(classes=[machine_class(layout=layout, kubelet=kubelet)], nodes=nodes, pods=pods)
