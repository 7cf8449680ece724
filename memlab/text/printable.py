"""Text that memlab did not write, as a reader may see it: names, paths, what other processes and
other hosts say. Whatever reaches a terminal, a page or another program's input goes through here.

A terminal obeys control characters, GitHub obeys a line that begins with `::`, and a reader is
misled by characters that turn the direction of text. They are written out, as Python does.
"""

from __future__ import annotations

import re
import signal

# Cc, Cf, Cs, Zl and Zp of Unicode 15, short of the tags of plane 14, which stand in the last range.
_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ONE = re.compile(f"[{_UNSEEN}]")
_MENTION = re.compile(r"[@#](?=\w)")


def printable(text: str, keep: str = "") -> str:
    r"""The same text with what is not seen written out: `\x1b`, `\n`, `\u202e`; a byte that is no
    UTF-8 (PEP 383) as `\xff`. `keep` are characters that do no harm where the text goes."""
    if text.isprintable():
        return text
    return _ONE.sub(lambda match: match[0] if match[0] in keep else _written(match[0]), text)


def unmentioned(markdown: str) -> str:
    """Markdown in which `@name` tells no user of GitHub, and `#7` links no issue: what follows the
    sign is another text."""
    return _MENTION.sub(r"\g<0><!-- -->", markdown)


def json_text(text: str) -> str:
    """JSON in which unseen characters are escaped: it says the same, and is UTF-8."""
    return _ONE.sub(lambda match: match[0] if match[0] == "\n" else _escaped(match[0]), text)


def signal_name(number: int) -> str:
    """`SIGSEGV`; `SIGRTMIN+6` of a real-time signal, few of which have a name; else its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        realtime = signal.SIGRTMIN < number < signal.SIGRTMAX
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if realtime else f"signal {number}"


def _written(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _escaped(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:  # as UTF-16 has it (RFC 8259, section 7)
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
