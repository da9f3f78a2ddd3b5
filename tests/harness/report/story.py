"""What kind of run to make up, and what a hostile server would say in it."""

from dataclasses import dataclass

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\x00\x07\x1b[2J\x1b[31mred\x1b[0m",
    "\r\n::error::forged by a reply\n##[error]forged",
    "]]>&amp;<x y='z'>",
    "\u2028\u2029\u202eevil\ufeff\ufffe",
    "\udc80lone",
    "| pipe ` tick * star [link](javascript:alert(1)) @someone",
)


@dataclass(frozen=True)
class Story:
    """What kind of run to make up."""

    minutes: float = 4.0
    seed: int = 7
    state: str = "FAIL"
    hostile: bool = True
    kv_sensor: bool = True
    rate: float = 6.0
