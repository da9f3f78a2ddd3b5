"""The text of an answer can't be made: the handler of the request raises, and the server lives on.

Models Z115 (vllm#45346 and its class: an exception where no code expects one), on the side of the server.
"""

from tests.planted.raising import raising

MODULE = "runtime.server.text"


def plant(text):
    text.Transcript.push = raising(text.Transcript.push, UnicodeError("planted in the text"), 150)
