"""A supervisor over any child: `python -m tests.runtime.server.parent OUTCOMES POLICY_JSON SOCKETS COMMAND...`

In the command, {fdN} is the N-th socket, {pid} the supervisor, {outcomes} the file, {restarts} how often so far.
"""

import json
import os
import sys

from runtime.server.journal import Journal
from runtime.server.sockets import bind
from runtime.server.supervisor import Policy, Supervisor

if __name__ == "__main__":
    outcomes, policy, count, *command = sys.argv[1:]
    sockets = [bind("127.0.0.1", 0) for _ in range(int(count))]
    names = {f"fd{n}": str(sock.fileno()) for n, sock in enumerate(sockets)} | {
        "pid": str(os.getpid()),
        "outcomes": outcomes,
    }

    def filled(restarts: int) -> list[str]:
        known = names | {"restarts": str(restarts)}
        return [known.get(word[1:-1], word) if word.startswith("{") else word for word in command]

    sys.exit(Supervisor(filled, sockets, Journal(outcomes), Policy(**json.loads(policy))).run())
