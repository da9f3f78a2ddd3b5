"""Sockets that hold a port while they do not listen."""

import socket
from contextlib import suppress

_TRIES = 16


def bind(host: str, port: int) -> socket.socket:
    """A socket that holds the port and does not listen yet. Raises OSError when the port is taken.

    With port 0 the chosen port is bound a second time by its number: the kernel frees a port that it chose itself as
    soon as the socket stops listening, and a restarted server would then get another port.
    """
    if port:
        return _bound(host, port)
    for _ in range(_TRIES):
        with _bound(host, 0) as chosen:
            number = chosen.getsockname()[1]
        try:
            return _bound(host, number)
        except OSError:
            continue  # another process has taken it
    raise OSError(f"no free port on {host} in {_TRIES} tries")


def stop_listening(sock: socket.socket) -> None:
    """Refuses clients from now on and keeps the port. A socket that does not listen is left alone."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
