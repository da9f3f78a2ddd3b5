"""The rule for each pair of outcomes of one request: what its client saw, and what the server's journal says.

The journal says how the answer was delivered. No pair is without a rule; `tests/assertions/test_outcome_pairs.py` walks
all of them.
"""

from collections.abc import Mapping
from enum import StrEnum


class Rule(StrEnum):
    SAME = "same"
    """Both tell the same; where it is ok, finish reason and tokens are compared too."""
    AGREE = "agree"
    """Neither says that an answer was served, and the server's error can look like that to a client."""
    LEFT = "left"
    """The client had hung up. The server may have ended the request before it could see that: judge hang_ups."""
    LEFT_ONLY = "left?"
    """LEFT when the client gave up by itself, and LIE when the server told it so."""
    BROKEN = "broken"
    """The server has sent a whole answer and the client got a part: LIE, unless the server died at that time."""
    OPEN = "open"
    """The client saw no end. That is a breach by itself, and says nothing about the server's word."""
    LIE = "LIE"
    """The two can't both be true."""


_TABLE = """
client \\ server   ok      refused  timeout  cancelled  http_error  inband_error  fatal
ok                same    LIE      LIE      LIE        LIE         LIE           LIE
http_error        LIE     agree    LIE      agree      same        LIE           agree
inband_error      LIE     agree    LIE      LIE        LIE         same          agree
truncated         broken  agree    agree    agree      agree       agree         agree
no_finish_reason  LIE     LIE      LIE      LIE        LIE         LIE           LIE
malformed         LIE     agree    agree    agree      agree       agree         agree
timeout           left?   left?    same     left?      left?       left?         left?
cancelled         left    left     left     same       left        left          left
refused           LIE     same     LIE      LIE        LIE         LIE           LIE
dropped           LIE     LIE      LIE      LIE        LIE         LIE           LIE
unfinished        open    open     open     open       open        open          open
"""


def _read(table: str) -> Mapping[tuple[str, str], Rule]:
    head, *rows = [line.split() for line in table.strip().splitlines()]
    servers = head[3:]
    return {
        (client, server): Rule(word) for client, *words in rows for server, word in zip(servers, words, strict=True)
    }


RULES = _read(_TABLE)
"""(client's outcome, server's outcome) -> rule."""


def rule_of(client: str, server: str) -> Rule | None:
    """The rule of one pair; None for a word that is no outcome."""
    return RULES.get((client, server))
