"""The reader of console blocks, and that no page has commands that nobody follows."""

from pathlib import Path

import pytest
from support.console_blocks import Step, read_steps

PAGE = """\
# First

```console
$ one --flag \\
    more
$ two   # why
out of two
  more of it
```

## Second

```yaml
$ no: command
```

    $ none either

```console
$ three
```
"""


def test_commands_with_their_output_and_place(tmp_path: Path):
    (tmp_path / "page.md").write_text(PAGE)
    steps = read_steps(tmp_path / "page.md")
    assert [(step.line, step.heading, step.command) for step in steps] == [
        (4, "First", "one --flag \\\n    more"),
        (6, "First", "two   # why"),
        (20, "Second", "three"),
    ]
    assert [step.output for step in steps] == [(), ("out of two", "  more of it"), ()]


SHOWN = [
    pytest.param((), "anything", True, id="nothing is shown"),
    pytest.param(("a b", "  c"), "a\n   b c\n", True, id="white space"),
    pytest.param(("a",), "a b", False, id="more than is shown"),
    pytest.param(("a b",), "a", False, id="less than is shown"),
    pytest.param(("...",), "anything", True, id="anything"),
    pytest.param(("a", "..."), "a", True, id="an elision of nothing"),
    pytest.param(("a", "...", "z."), "a\nb\nc z.", True, id="lines between"),
    pytest.param(("a ... z",), "a b y", False, id="another end"),
    pytest.param(("count: ... of it",), "count: 12 of it", True, id="a number between"),
    pytest.param(("a (1) [X]",), "a (1) [X]", True, id="signs of patterns"),
]


@pytest.mark.parametrize(("output", "printed", "is_shown"), SHOWN)
def test_what_is_shown_is_compared_with_what_is_printed(output, printed, is_shown):
    assert Step("page.md", 1, "", "x", output).is_shown_by(printed) is is_shown
