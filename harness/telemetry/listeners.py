"""Which process serves a port of this machine, as far as we are permitted to see."""

from urllib.parse import urlsplit


def listener(port: int) -> int | None:
    """The pid that listens on `port`; None when nothing does or we may not see whose it is.

    Workers that share one listening socket are all listed: the answer is then the one that started the others.
    """
    import psutil

    try:
        rows = psutil.net_connections("tcp")
    except psutil.Error:
        return None
    pids = {row.pid for row in rows if row.status == psutil.CONN_LISTEN and row.laddr and row.laddr.port == port}
    known = sorted(pid for pid in pids if pid is not None)
    return next((pid for pid in known if _parent(pid) not in pids), None)


def name_of(pid: int) -> str:
    """A short name of a process for people; its number where it has none."""
    import psutil

    try:
        return psutil.Process(pid).name() or str(pid)
    except psutil.Error:
        return str(pid)


def port_of(url: str) -> int:
    """The port of a URL, with the scheme's own where none is written."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _parent(pid: int) -> int | None:
    import psutil

    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None
