"""The client of the built-in server's admin port: arm, heal, heartbeat, audit. Loopback, one token, bounded waits."""

from typing import Any

import requests

from faults.spec import FaultSpec
from harness.trial.ports import AdminGone


class Admin:
    """The port `harness.trial.ports.Admin` over HTTP: one session to one server."""

    def __init__(self, port: int, token: str) -> None:
        self._base = f"http://127.0.0.1:{port}/admin"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}"

    def arm(self, spec: FaultSpec) -> None:
        self._call("POST", "faults", json=spec.to_json())

    def heal(self, fault: str) -> None:
        self._call("DELETE", f"faults/{fault}")

    def states(self) -> list[dict[str, Any]]:
        """All faults since the server started, as `faults.evidence.FaultState` writes them."""
        states: list[dict[str, Any]] = self._call("GET", "faults")["faults"]
        return states

    def heartbeat(self) -> None:
        self._call("POST", "heartbeat")

    def audit(self, scope: str) -> None:
        """Run the reclamation audit. The server writes its rows to its journal."""
        self._call("POST", f"audit?scope={scope}", timeout_s=30.0)

    def info(self) -> dict[str, Any]:
        """The server's description of itself: model, digest, blocks, threads, versions."""
        return self._call("GET", "info")

    def close(self) -> None:
        self._session.close()

    def _call(self, method: str, path: str, json: object = None, timeout_s: float = 5.0) -> dict[str, Any]:
        try:
            reply = self._session.request(
                method, f"{self._base}/{path}", json=json, timeout=timeout_s, allow_redirects=False
            )
        except requests.RequestException as error:
            raise AdminGone(f"{method} {path}: {type(error).__name__}") from error
        if reply.status_code // 100 != 2:
            raise AdminGone(f"{method} {path}: {reply.status_code} {reply.text[:300]}")
        body: dict[str, Any] = reply.json() if reply.content else {}
        return body
