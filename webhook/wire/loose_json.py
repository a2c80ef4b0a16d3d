"""A reader of JSON text that also understands trailing commas and comments, and says that it met them.

Why our own: the annotation's text is read later by Go (strict JSON) and is printed wrong in the vendor's own guide. We
must know that the *only* fault is a comma or a comment, keep duplicate keys and the order, and write the text again
without touching a single token. One pass, no recursion, linear in the text; it raises nothing but ``LooseJsonError``.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from webhook.core.plain_text import quoted


@dataclass(frozen=True, slots=True)
class LooseValue:
    """One value: what it is and, of a text, its content."""

    kind: str
    """``object``, ``array``, ``string``, ``number``, ``true``, ``false`` or ``null``."""
    lexeme: str
    """As written; empty for an object or array."""
    text: str = ""
    """The content of a string; may hold lone surrogates, as JSON may."""


@dataclass(frozen=True, slots=True)
class LooseDocument:
    """A document: its outermost value, its members if that is an object, and the tokens without what JSON forbids."""

    kind: str
    members: tuple[tuple[str, LooseValue, str], ...]
    """(key, value, the member's compact JSON text) of the outermost object, duplicates kept, in order."""
    compact: str
    repairs: tuple[str, ...] = ()
    """What JSON forbids and was left out: ``a comment``, ``a trailing comma``; each once. Empty for valid JSON."""


class LooseJsonError(ValueError):
    """The text cannot be read even loosely; the message says what was found where, and what is wanted."""

    def __init__(self, found: str, wanted: str, *, too_deep: bool = False) -> None:
        """Keep the two halves of the sentence, and whether the fault is the depth."""
        super().__init__(f"found {found}, wanted {wanted}")
        self.found = found
        self.wanted = wanted
        self.too_deep = too_deep


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\n\r]++)
    | (?P<comment>//[^\n]*+ | \#[^\n]*+ | /\*(?s:.*?)\*/)
    | (?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")
    | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
    | (?P<word>true|false|null)
    | (?P<open>[{\[]) | (?P<close>[}\]]) | (?P<comma>,) | (?P<colon>:)""",
    re.VERBOSE,
)
_VALUE_STARTS: Final = frozenset({"string", "number", "word", "open"})
_NOT_NUMBERS: Final = re.compile(r"-?(?:NaN|Infinity)")

# What may come next. A member's key and its colon are two steps; a comma leads to a key or a value that must follow
# unless the object or array closes first, which is the trailing comma.
_VALUE: Final = "a value"
_FIRST_VALUE: Final = "a value or ]"
_FIRST_KEY: Final = 'a key in double quotes or "}"'
_NEXT_KEY: Final = "a key in double quotes"
_COLON: Final = "a colon"
_AFTER: Final = "a comma or the closing bracket"
_END: Final = "nothing more"


def read_loose_json(text: str, *, max_depth: int) -> LooseDocument:
    """Return the document in ``text``, which is JSON but for comments (``//``, ``#``, ``/* */``) and trailing commas.

    Raises:
        LooseJsonError: anything else is wrong, or brackets are nested deeper than ``max_depth``.
    """
    reader = _Reader(text, max_depth)
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        reader.take(match.lastgroup or "", match.group(), match.start())
    if position != len(text):
        raise reader.error(position)
    if reader.state != _END:
        raise LooseJsonError("the end of the text", reader.state)
    return reader.document()


class _Reader:
    """The state between two tokens: the open brackets, what may come next, and what was kept so far."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.state = _VALUE
        self.after_comma = False
        self.open_brackets: list[str] = []
        self.kept: list[str] = []
        self.repairs: list[str] = []
        self.kind = ""
        self.members: list[tuple[str, LooseValue, str]] = []
        self.key = ""
        self.member_start = 0
        self.value = LooseValue("", "")

    def error(self, position: int) -> LooseJsonError:
        """Return the error that what stands at ``position`` cannot stand there."""
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        word = _NOT_NUMBERS.match(self.text, position)
        found = quoted(word.group() if word else self.text[position : position + 20], 60)
        return LooseJsonError(f"{found} at line {line}, column {column}", self.state)

    def take(self, group: str, lexeme: str, position: int) -> None:
        """Move on by one token."""
        if group == "space":
            return
        if group == "comment":
            self._repair("a comment")
        elif group in _VALUE_STARTS and self.state in (_VALUE, _FIRST_VALUE):
            self._start_value(group, lexeme)
        elif group == "string" and self.state in (_FIRST_KEY, _NEXT_KEY):
            self._start_member(lexeme)
        elif group == "colon" and self.state == _COLON:
            self.kept.append(lexeme)
            self.state = _VALUE
        elif group == "comma" and self.state == _AFTER:
            self._end_member()
            self.kept.append(lexeme)
            self.after_comma = True
            self.state = _NEXT_KEY if self.open_brackets[-1] == "{" else _VALUE
        elif group == "close" and self._may_close(lexeme):
            self._close(lexeme)
        else:
            raise self.error(position)

    def document(self) -> LooseDocument:
        """Return what was read."""
        return LooseDocument(self.kind, tuple(self.members), "".join(self.kept), tuple(self.repairs))

    def _repair(self, what: str) -> None:
        if what not in self.repairs:
            self.repairs.append(what)

    def _start_value(self, group: str, lexeme: str) -> None:
        self.after_comma = False
        if group == "open":
            if len(self.open_brackets) == self.max_depth:
                raise LooseJsonError(
                    f"brackets nested deeper than {self.max_depth}", f"at most {self.max_depth} levels", too_deep=True
                )
            kind = "object" if lexeme == "{" else "array"
            self.state = _FIRST_KEY if lexeme == "{" else _FIRST_VALUE
        else:
            kind = lexeme if group == "word" else group
            self.state = _AFTER if self.open_brackets else _END
        if not self.open_brackets:
            self.kind = kind
        elif len(self.open_brackets) == 1:
            self.value = (
                LooseValue(kind, "", "") if group == "open" else LooseValue(kind, lexeme, _content(group, lexeme))
            )
        if group == "open":
            self.open_brackets.append(lexeme)
        self.kept.append(lexeme)

    def _start_member(self, lexeme: str) -> None:
        self.after_comma = False
        if len(self.open_brackets) == 1:
            self.key = _content("string", lexeme)
            self.member_start = len(self.kept)
        self.kept.append(lexeme)
        self.state = _COLON

    def _end_member(self) -> None:
        if len(self.open_brackets) == 1 and self.open_brackets[0] == "{":
            self.members.append((self.key, self.value, "".join(self.kept[self.member_start :])))

    def _may_close(self, lexeme: str) -> bool:
        if not self.open_brackets or self.open_brackets[-1] != ("{" if lexeme == "}" else "["):
            return False
        return self.state in (_FIRST_KEY, _FIRST_VALUE, _AFTER) or self.after_comma

    def _close(self, lexeme: str) -> None:
        if self.after_comma:
            self.kept.pop()
            self._repair("a trailing comma")
        elif self.state == _AFTER:
            self._end_member()
        self.after_comma = False
        self.open_brackets.pop()
        self.kept.append(lexeme)
        self.state = _AFTER if self.open_brackets else _END


def _content(group: str, lexeme: str) -> str:
    """Return the content of a string token; other tokens have none."""
    if group != "string":
        return ""
    if "\\" not in lexeme:
        return lexeme[1:-1]
    content: str = json.loads(lexeme)
    return content
