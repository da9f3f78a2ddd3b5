"""Finds the process that listens on a port of this machine, as far as permissions allow."""

from urllib.parse import urlsplit

import psutil


def listener(port: int) -> int | None:
    """The pid of the process that listens on `port`; None when there is none or it is not visible.

    Where workers share a listening socket, it is the pid of the process that started the others.
    """
    try:
        rows = psutil.net_connections("tcp")
    except psutil.Error:
        return None
    pids = {row.pid for row in rows if row.status == psutil.CONN_LISTEN and row.laddr and row.laddr.port == port}
    known = sorted(pid for pid in pids if pid is not None)
    return next((pid for pid in known if _parent(pid) not in pids), None)


def name_of(pid: int) -> str:
    """The short name of a process, or its pid when it has none."""
    try:
        return psutil.Process(pid).name() or str(pid)
    except psutil.Error:
        return str(pid)


def port_of(url: str) -> int:
    """The port of a URL, or the default port of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _parent(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None
