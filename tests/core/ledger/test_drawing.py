"""The drawing of machines: every line fits, every CPU and device stands for its holder, in characters of one column."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.picture_texts import GPU, machine_class, pictures, text

from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.drawing import Look, Note, draw_nodes
from webhook.core.ledger.drawing_text import ASCII, UNICODE, Span, Tone, flow, shown, text_of, wrap
from webhook.core.ledger.node_notes import node_notes
from webhook.core.ledger.records import AllocatorKind
from webhook.service.picture import demo_picture, fits_together, ledger_of, load_picture

ALLOCATORS = {AllocatorKind.KUBELET: KubeletAllocator()}


def _ledger(source):
    picture = load_picture(source)
    assert picture.faults == ()
    return ledger_of(picture, ALLOCATORS, 0.0)


def _lines(ledger, **look):
    return [text_of(line) for line in draw_nodes(ledger.views.values(), Look(**look))]


def _box(nodes=({"name": "n", "class": "box"},), pods=(), **declared):
    return text(classes=[machine_class(**declared)], nodes=list(nodes), pods=list(pods))


def _pod(name, **changes):
    return {"name": name, "node": "n", "resources": {"cpu": 2, "memory": "1Gi", GPU: 1}, **changes}


def test_demo_as_drawn():
    """The first machine of the demo, whole: a person who changes the drawing looks at this."""
    ledger = ledger_of(demo_picture(), ALLOCATORS, 0.0)
    view = ledger.views["gpu-1"]
    assert [text_of(line) for line in draw_nodes([view], Look(80))] == [
        "╭─ gpu-1 ──────────────────────── gpu-2x4, policy single-numa-node, scope pod ─╮",
        "│         CPUs, 2 a cell                        free   gpu        free         │",
        "│ NUMA 0  ▒AAAAAAAA·······················  46 of 62   A A · ·  2 of 4         │",
        "│ NUMA 1  ▒BBBBBBBB·······················  46 of 62   B B · ·  2 of 4         │",
        "│ A research/tune-0 (Job/tune)   B research/tune-1 (Job/tune)                  │",
        "│ Free by plain count: 92 of 124 CPUs, 4 of 8 aliyun.com/gpu                   │",
        "│ 896 of 1024 GiB of memory                                                    │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
    ]


def test_the_frame_of_a_machine_of_no_kind_has_no_gap():
    """Nothing is known of it, so nothing stands at the right of the upper edge."""
    blank = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "blank"}, "status": {"allocatable": {"cpu": 8}}}'
    upper = _lines(_ledger(blank), width_columns=60)[0]
    assert upper.removeprefix("╭─ blank, not ready ").strip("─") == "╮"
    assert len(upper) == 60


@settings(max_examples=60, deadline=None)
@given(pictures(), st.sampled_from([60, 80, 100, 120]), st.sampled_from([UNICODE, ASCII]))
def test_every_line_is_as_wide_as_asked(source, width, signs):
    """Frames close at the asked column, whatever stands in them; ASCII is ASCII.

    Sixty are too few for eight cells of CPUs beside the devices of some machines: then the frame is as wide as these.
    """
    lines = _lines(_ledger(source), width_columns=width, signs=signs)
    frames: list[list[str]] = []
    for line in lines:
        if line.startswith(f"{signs.corners[0]}{signs.across} "):
            frames.append([])
        frames[-1].append(line)
    for frame in frames:
        (found,) = {len(line) for line in frame}
        assert found == width or width == 60 < found < 80
    assert signs is UNICODE or all(line.isascii() for line in lines)


@settings(max_examples=60, deadline=None)
@given(pictures())
def test_cells_count_what_is_held(source):
    """Each device has one cell, with its holder's letter; free ones have the sign of free."""
    ledger = _ledger(source)
    for view in ledger.views.values():
        machine = view.record.machine
        lines = [text_of(line) for line in draw_nodes([view], Look(120))]
        rows = [line for line in lines if line.startswith("│ NUMA ")]
        assert len(rows) == len(machine.numa_ids)
        # label, CPU cells, "x of y", then the cells and "x of y" of the only device kind
        cells = "".join(re.split(r" of \d+", row, maxsplit=2)[1].rstrip("0123456789 ") for row in rows)
        letters = re.sub(r"[ │]", "", cells)
        held = sum(
            mask.bit_count()
            for entry in (*view.bound, *view.virtual)
            if entry.holding is not None
            for mask in entry.holding.devices
        )
        assert sum(letter.isalpha() for letter in letters) == held
        assert letters.count("·") == machine.devices[0].count - held


@settings(max_examples=60, deadline=None)
@given(pictures().filter(lambda source: '"threadsPerCore": 1' in source))
def test_each_cpu_has_its_holder(source):
    """With one thread a core each CPU has a cell: its holder's letter, or the sign of reserved or free."""
    for view in _ledger(source).views.values():
        machine = view.record.machine
        rows = [text_of(line) for line in draw_nodes([view], Look(120)) if text_of(line).startswith("│ NUMA ")]
        for row, cpus in zip(rows, machine.cpus.numa_cpus, strict=True):
            cells = re.match(r"│ NUMA \d+ +(\S+) +\d+ of", row)[1]
            held = sum(
                (entry.holding.cpus & cpus).bit_count() for entry in (*view.bound, *view.virtual) if entry.holding
            )
            assert len(cells) == cpus.bit_count()
            assert sum(cell.isalpha() for cell in cells) == held
            assert cells.count("▒") == (machine.reserved_cpus & cpus).bit_count()


@pytest.mark.parametrize(
    ("node", "words"),
    [
        pytest.param({"unschedulable": True}, "n, cordoned ", id="cordoned"),
        pytest.param({"ready": False}, "n, not ready ", id="not ready"),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}, "n, taint k=v:NoExecute ", id="taint"
        ),
    ],
)
def test_title_says_what_keeps_pods_away(node, words):
    """Who looks at free CPUs must see why nothing comes."""
    assert words in _lines(_ledger(_box([{"name": "n", "class": "box", **node}])))[0]


def test_empty_machines_that_are_alike_are_drawn_once():
    """Twelve equal machines are one frame; one that differs or holds something stands alone."""
    nodes = [
        {"names": "gpu-{01..12}", "class": "box"},
        {"names": "x-{1..2}", "class": "box", "unschedulable": True},
        {"name": "n", "class": "box"},
    ]
    drawn = _lines(_ledger(_box(nodes, [_pod("p")])), width_columns=120)
    titles = [line for line in drawn if line.startswith("╭")]
    assert [title.split(" ─")[0] for title in titles] == [
        "╭─ gpu-01, gpu-02, gpu-03 and 9 more (alike, empty)",
        "╭─ x-1, x-2 (alike, empty), cordoned",
        "╭─ n, places guessed",
    ]


@pytest.mark.parametrize(
    ("pods", "line"),
    [
        pytest.param(
            [_pod("p", owner="Job/j", terminating=True)], "A default/p (Job/j, place guessed, terminating)", id="bound"
        ),
        pytest.param([_pod("p", node=None)], "a default/p (not bound yet)", id="waiting"),
        pytest.param([_pod("p", resources={"memory": "1Gi"})], "Shares CPUs: default/p", id="nothing of its own"),
        pytest.param(
            [_pod("p", resources={"cpu": 9, "memory": "1Gi", GPU: 1})], "Place not known: default/p", id="cannot be"
        ),
    ],
)
def test_legend(pods, line):
    """Who holds what has a letter; the others are named all the same."""
    pods = [{key: value for key, value in pod.items() if value is not None} for pod in pods]
    assert any(line in drawn for drawn in _lines(_ledger(_box(pods=pods))))


def test_more_holders_than_letters():
    """Beyond the alphabet they share a sign, and are counted."""
    layout = {"coresPerNUMANode": 40, "devices": {}}
    pods = [_pod(f"p-{number}", resources={"cpu": 1, "memory": "1Gi"}) for number in range(30)]
    lines = _lines(_ledger(_box(pods=pods, layout=layout)), width_columns=120)
    assert any("+ 4 more pods" in line for line in lines)


def test_broken_and_unplaced_devices():
    """A broken device is marked; one without a NUMA node stands in the first row."""
    node = {"name": "n", "class": "box", "unhealthy": {GPU: [1]}}
    lines = _lines(_ledger(_box([node], layout={"devices": {GPU: [0, 1, None]}})))
    rows = [line for line in lines if "NUMA" in line]
    assert "· ·" in rows[0]
    assert "✗" in rows[1]


def test_resources_of_one_short_name_keep_their_whole_names():
    """Two kinds of ``gpu`` would be one column heading twice."""
    devices = {GPU: 1, "nvidia.com/gpu": 1, "example.com/nic": 1}
    heading = _lines(_ledger(_box(layout={"devices": devices})), width_columns=120)[1]
    assert " nic " in heading
    assert " gpu " not in heading


def test_unknown_machine():
    """Without topology there is the plain count, and the reason."""
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", GPU: "2"}}}
    lines = _lines(_ledger(str(node).replace("'", '"')))
    assert "not known" in lines[1]
    assert "8 of 8 CPUs, 2 of 2 aliyun.com/gpu" in lines[2]


@pytest.mark.parametrize(
    ("node", "pod", "words"),
    [
        pytest.param({}, {}, "ask would fit", id="fits"),
        pytest.param({}, {"nodeSelector": {"a": "b"}}, "selector", id="selector"),
        pytest.param({"ready": False}, {}, "not ready", id="not ready"),
        pytest.param({"unschedulable": True}, {}, "cordoned", id="cordoned"),
        pytest.param({"taints": [{"key": "k", "effect": "NoSchedule"}]}, {}, "taint", id="taint"),
        pytest.param({}, {"resources": {GPU: 5}}, f"asks for 5 {GPU}, 4 free by plain count", id="devices"),
        pytest.param({}, {"resources": {"cpu": "14500m"}}, "asks for 14.5 CPUs, 14 are free", id="CPUs"),
        pytest.param({}, {"resources": {GPU: 3}}, "refuse it with TopologyAffinityError", id="the kubelet"),
    ],
)
def test_what_a_node_is_to_a_pod(node, pod, words):
    """The first reason that speaks against the node is told."""
    ledger = _ledger(_box([{"name": "n", "class": "box", **node}]))
    asked = load_picture(text(pods=[{"name": "ask", **({"resources": {GPU: 1}} | pod)}])).pods[0]
    note = node_notes(ledger, asked, ["n", "no-such-node"])["n"]
    assert words in note.words
    assert note.is_good is (words == "ask would fit")


def test_asked_pods_and_notes_are_marked():
    """The place of the pod in question stands out by its tone, and each node says what it is to it."""
    ledger = _ledger(_box())
    asked = load_picture(text(pods=[{"name": "ask", "resources": {GPU: 2}}])).pods[0]
    (answer,) = fits_together(ledger, [asked], now_seconds=0.0)
    look = Look(asked=frozenset({answer.pod.uid}), notes={"n": Note("here\x1b[2J", is_good=True)})
    lines = list(draw_nodes(ledger.views.values(), look))
    assert any(span == Span("a", Tone.ASKED, span.hue) for line in lines for span in line)
    words = "\n".join(map(text_of, lines))
    assert "a default/ask (would go here)" in words
    assert "→ here?[2J" in words


@given(st.lists(st.text("ab ", max_size=12).map(lambda words: (Span(words),)), max_size=8), st.integers(8, 30))
def test_flow_loses_nothing(items, width):
    """Items stay whole and in order, and lines stay narrow unless one item is wider."""
    lines = [text_of(line) for line in flow(items, width, "|")]
    assert "|".join(lines) == "|".join(text_of(item) for item in items)
    assert all(len(line) <= max(width, 12) for line in lines)


@given(st.text("ab ", max_size=60), st.integers(5, 30))
def test_wrap_loses_no_word(words, width):
    """Every word is there, in order."""
    lines = list(wrap(words, width))
    assert " ".join(lines).split() == words.split()
    assert all(len(line) <= width or " " not in line.strip() for line in lines)


@pytest.mark.parametrize(
    ("words", "width", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("a\nb", 9, "a?b"),
        ("\u202eé", 9, "??"),
    ],
    ids=["fits", "cut", "line break", "override and accent"],
)
def test_shown(words, width, expected):
    """What a stranger wrote takes one column a character and commands nothing."""
    assert shown(words, width, UNICODE) == expected
