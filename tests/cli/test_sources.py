"""Which files a checker reads: links, names and paths that go wrong."""

import os

import pytest

from webhook.cli.check_formats import line_text
from webhook.cli.check_report import Line
from webhook.cli.sources import Source, Unreadable, Walk, read_sources
from webhook.wire.manifests import Position


def found(*paths):
    """(name, whether it could be read) of each source."""
    return [(source.name, isinstance(source, Source)) for source in read_sources(map(str, paths))]


def test_links_in_circles_end(tmp_path):
    """A link to a folder above is not followed for ever, and is counted; nobody knows what a dead link would hold."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "a" / "self.yaml").symlink_to("self.yaml")
    (tmp_path / "a" / "pod.yaml").write_text("kind: Pod\n")
    walk = Walk()
    names = [(source.name, getattr(source, "problem", "")) for source in read_sources([str(tmp_path)], walk=walk)]
    assert names == [
        (str(tmp_path / "a" / "gone.yaml"), "It is a link that leads nowhere."),
        (str(tmp_path / "a" / "pod.yaml"), ""),
        (str(tmp_path / "a" / "self.yaml"), "It cannot be read: Too many levels of symbolic links."),
    ]
    assert walk.links_to_folders == 1


def test_what_is_no_file_is_not_passed_over_in_silence(tmp_path):
    """A pipe is not opened: that would wait for a writer; a link to a file is read as the file."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "folder.yaml" / "pod.txt").write_text("kind: Pod\n")
    (tmp_path / "link.yaml").symlink_to("folder.yaml/pod.txt")
    assert found(tmp_path) == [(str(tmp_path / "link.yaml"), True), (str(tmp_path / "pipe.yaml"), False)]


def test_an_ignored_link_is_not_counted(tmp_path):
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "pod.yaml").write_text("kind: Pod\n")
    walk = Walk(("up",))
    assert [source.name for source in read_sources([str(tmp_path)], walk=walk)] == [str(tmp_path / "pod.yaml")]
    assert (walk.links_to_folders, walk.unused) == (0, ())


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("", "The path is empty.", id="an unset variable of a pipeline is not the current folder"),
        pytest.param("nowhere", "It cannot be read: No such file or directory.", id="no such file"),
        pytest.param("binary", "It is not UTF-8: byte 1 cannot be read.", id="binary"),
        pytest.param("self", "It cannot be read: Too many levels of symbolic links.", id="a link to itself"),
    ],
)
def test_a_path_that_gives_no_text_says_why(tmp_path, monkeypatch, path, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"a\xff\x00")
    (tmp_path / "self").symlink_to("self")
    (source,) = read_sources([path])
    assert source == Unreadable(path, problem)


def test_a_file_s_name_is_printed_escaped():
    """A line of the report is one line, whatever a repository calls its files."""
    line = Line("a\n\x1b[31m/p.yaml", Position(1, 2), None, "It holds no document.")
    assert line_text(line) == r"a\n\x1b[31m/p.yaml:1:2: error: It holds no document. [UNREADABLE]"


TREE = ("a.yaml", "charts/x/values.yaml", "charts/x/templates/pod.yaml", "deep/charts/b.json", "deep/c.yml")
IGNORES = [
    pytest.param((), TREE, id="nothing"),
    pytest.param(("*.yml",), TREE[:4], id="a name"),
    pytest.param(("charts",), ("a.yaml", "deep/c.yml"), id="a folder's name at any depth"),
    pytest.param(("charts/",), ("a.yaml", "deep/c.yml"), id="with a slash at its end"),
    pytest.param(("charts/x",), ("a.yaml", "deep/c.yml", "deep/charts/b.json"), id="a path from the folder"),
    pytest.param(("charts/*",), ("a.yaml", "deep/c.yml", "deep/charts/b.json"), id="all below a path"),
    pytest.param(
        ("deep/*.json", "a.*"), ("charts/x/templates/pod.yaml", "charts/x/values.yaml", "deep/c.yml"), id="two"
    ),
    pytest.param(("./charts/x",), ("a.yaml", "deep/c.yml", "deep/charts/b.json"), id="as a shell completes it"),
    pytest.param(("CHARTS",), TREE, id="case counts"),
]


@pytest.mark.parametrize(("ignored", "wanted"), IGNORES)
def test_what_a_folder_does_not_give(tmp_path, ignored, wanted):
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("kind: Pod\n")
    names = [source.name.removeprefix(f"{tmp_path}/") for source in read_sources([str(tmp_path)], walk=Walk(ignored))]
    assert names == sorted(wanted)


def test_a_file_that_is_named_is_read_whatever_is_ignored(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: Pod\n")
    (source,) = read_sources([str(tmp_path / "a.yaml")], walk=Walk(("*",)))
    assert isinstance(source, Source)
    (nothing,) = read_sources([str(tmp_path)], walk=Walk(("*",)))
    assert nothing == Unreadable(str(tmp_path), "Every .yaml, .yml and .json file of the folder is ignored.")


PRINTED = [
    pytest.param("r", "r/deep/c.yml", id="as it is printed"),
    pytest.param("./r/", "./r/deep/c.yml", id="as it is called"),
    pytest.param("./r/", "r/deep", id="a folder"),
    pytest.param("r", "r/deep/*", id="with a star"),
    pytest.param(".", "r/deep/c.yml", id="from the current folder"),
    pytest.param("../r", "../r/deep/c.yml", id="from above"),
]


@pytest.mark.parametrize(("root", "pattern"), PRINTED)
def test_a_path_that_is_printed_can_be_ignored(tmp_path, monkeypatch, root, pattern):
    (tmp_path / "r" / "deep").mkdir(parents=True)
    for name in ("a.yaml", "deep/c.yml"):
        (tmp_path / "r" / name).write_text("kind: Pod\n")
    monkeypatch.chdir(tmp_path / "r" if root == "../r" else tmp_path)
    walk = Walk((pattern, "nosuchthing"))
    assert [source.name.rpartition("/")[2] for source in read_sources([root], walk=walk)] == ["a.yaml"]
    assert walk.unused == ("nosuchthing",)


def test_a_path_below_the_folder_is_no_name_at_any_depth(tmp_path, monkeypatch):
    """The printed path of one file does not take its namesakes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r" / "deep").mkdir(parents=True)
    for name in ("a.yaml", "deep/a.yaml"):
        (tmp_path / "r" / name).write_text("kind: Pod\n")
    assert [source.name for source in read_sources(["r"], walk=Walk(("r/a.yaml",)))] == ["r/deep/a.yaml"]
