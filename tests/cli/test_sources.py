"""Which files a checker reads: links, names and paths that go wrong."""

import pytest

from webhook.cli.check import Line
from webhook.cli.sources import Source, Unreadable, read_sources
from webhook.wire.manifests import Position


def found(*paths):
    """(name, whether it could be read) of each source."""
    return [(source.name, isinstance(source, Source)) for source in read_sources(map(str, paths))]


def test_links_in_circles_end(tmp_path):
    """A link to a folder above is not followed for ever; a link to nothing is no file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "a" / "self.yaml").symlink_to("self.yaml")
    (tmp_path / "a" / "pod.yaml").write_text("kind: Pod\n")
    assert found(tmp_path) == [(str(tmp_path / "a" / "pod.yaml"), True)]


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
    assert str(line) == r"a\n\x1b[31m/p.yaml:1:2: error: It holds no document. [UNREADABLE]"
