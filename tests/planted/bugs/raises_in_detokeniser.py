"""The text of an answer can't be made: the handler of the request raises, and the server lives on."""

from tests.planted.raising import raising

MODULE = "runtime.server.text"


def plant(text):
    text.Transcript.push = raising(text.Transcript.push, UnicodeError("planted in the text"), 150)
