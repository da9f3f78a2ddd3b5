"""Sockets that hold a port, whether or not anybody listens on it."""

import socket

_TRIES = 16


def bind(host: str, port: int) -> socket.socket:
    """A socket that holds the port and does not listen yet. Errors: OSError when it is taken.

    A free port is bound twice, the second time by its number: the kernel lets a port that it chose itself go as soon
    as the socket stops listening, and a restarted server would then be somewhere else.
    """
    if port:
        return _bound(host, port)
    for _ in range(_TRIES):
        with _bound(host, 0) as chosen:
            number = chosen.getsockname()[1]
        try:
            return _bound(host, number)
        except OSError:
            continue  # somebody was quicker
    raise OSError(f"no free port on {host} in {_TRIES} tries")


def stop_listening(sock: socket.socket) -> None:
    """Refuse clients from now on and keep the port. A socket that does not listen is left as it is."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
