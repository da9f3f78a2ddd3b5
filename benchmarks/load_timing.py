"""How far off are the times that our reader sees? Ours against Locust's FastHttpUser, on streams whose truth is known.

    python benchmarks/load_timing.py [--streams 200] [--tokens_per_s 20] [--seconds 10] [--together]

A server in a process of its own writes the time of sending into each token's text. A client (another process) runs
N streams at once; a token's error is its arrival stamp minus the time in its text, both CLOCK_MONOTONIC of one host.
Errors of the first tokens are TTFT errors; the ITL error is the difference of a gap here and the same gap there.
By default streams are out of step with each other; with `--together` all send at the same instant, as a server that
decodes one batch does, and the last of N tokens then waits for the client to read N - 1 others.
The row "machine" is what a process suffers here that does nothing but sleep 5 ms at a time, meanwhile: no client can
be better than that, and where it is not far below 1 ms the other rows measure the machine.
"""

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

RAMP_S = 2.0  # over which the streams begin, which also puts them out of step
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def main() -> None:
    options = _options()
    if options.role == "server":
        asyncio.run(_serve(options))
        return
    if options.role != "both":
        print(json.dumps(_sleep(options) if options.role == "sleeper" else _client(options)))
        return
    server = _child("server", options, 0)
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        found = {}
        for reader in ("ours", "fast"):
            sleeper, client = _child("sleeper", options, port), _child(reader, options, port)
            said = client.communicate(timeout=options.seconds * 4 + 60)[0]
            overslept = sleeper.communicate(timeout=options.seconds * 4 + 60)[0]
            if client.returncode or sleeper.returncode:
                sys.exit(f"the client {reader!r} failed with code {client.returncode}")
            found[reader] = {**json.loads(said), **json.loads(overslept)}
    finally:
        server.kill()
        server.wait()
    _show(options, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens_per_s", type=float, default=20.0, help="of each stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each client, its ramp of 2 s included")
    parser.add_argument("--together", action="store_true", help="all streams send at the same instants")
    parser.add_argument(
        "--role", choices=("both", "server", "ours", "fast", "sleeper"), default="both", help=argparse.SUPPRESS
    )
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _child(role: str, options: argparse.Namespace, port: int) -> "subprocess.Popen[bytes]":
    words = [f"--streams={options.streams}", f"--tokens_per_s={options.tokens_per_s}", f"--seconds={options.seconds}"]
    words += ["--together"] if options.together else []
    return subprocess.Popen(
        [sys.executable, __file__, f"--role={role}", f"--port={port}", *words], stdout=subprocess.PIPE
    )


# -- the server --------------------------------------------------------------------------------------------------------


async def _serve(options: argparse.Namespace) -> None:
    period_ns = int(1e9 / options.tokens_per_s)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(
            next(row.split(b":")[1] for row in head.lower().split(b"\r\n") if row.startswith(b"content-length"))
        )
        tokens = json.loads(await reader.readexactly(length))["max_tokens"]
        writer.write(HEAD)
        at_ns = time.monotonic_ns() + period_ns
        if options.together:
            at_ns -= at_ns % period_ns
        for number in range(tokens):
            await asyncio.sleep((at_ns - time.monotonic_ns()) / 1e9)
            finish = '"length"' if number == tokens - 1 else "null"
            text = f'{{"choices":[{{"index":0,"text":"{time.monotonic_ns()} ","finish_reason":{finish}}}]}}'
            _write(writer, f"data: {text}\n\n".encode())
            at_ns += period_ns
        _write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


# -- the clients -------------------------------------------------------------------------------------------------------


def _client(options: argparse.Namespace) -> dict[str, list[float]]:
    """Errors in ms: of first tokens, of all tokens, of gaps."""
    import gc

    import gevent
    from locust import __version__  # noqa: F401 - patches the standard library, as in the load process

    read_one = {"ours": _read_ours, "fast": _read_fast}[options.role]
    tokens = max(
        2, min(200, int((options.seconds - RAMP_S) * options.tokens_per_s))
    )  # 200 stamps fit into the reader's sample
    body = json.dumps({"prompt": "x", "max_tokens": tokens, "stream": True}).encode()
    url = f"http://127.0.0.1:{options.port}/v1/completions"
    streams: list[tuple[list[int], list[int]]] = []

    def one(number: int) -> None:
        gevent.sleep(RAMP_S * number / options.streams)  # 200 new connections at once are another measurement
        streams.append(read_one(url, body))

    gc.collect()
    gc.freeze()  # as the load process does: a full collection of what was imported stops it for some 20 ms
    before_s = time.process_time()
    jobs = [gevent.spawn(one, number) for number in range(options.streams)]
    gevent.joinall(jobs, raise_error=True, timeout=options.seconds * 3 + 30)
    first, every, gaps = [], [], []
    for heard_ns, sent_ns in streams:
        errors_ns = [heard - sent for heard, sent in zip(heard_ns, sent_ns, strict=True)]
        first.append(errors_ns[0] / 1e6)
        every += [error / 1e6 for error in errors_ns]
        gaps += [abs(later - earlier) / 1e6 for earlier, later in itertools.pairwise(errors_ns)]
    return {"ttft": first, "token": every, "itl": gaps, "cpu_s": [time.process_time() - before_s]}


def _read_ours(url: str, body: bytes) -> tuple[list[int], list[int]]:
    from harness.load.connection import Connection
    from harness.load.exchange import Exchange, HttpRequest

    gaps_ns: list[int] = []
    reply = Exchange(HttpRequest("b", url, body, {}, 120.0), Connection(), on_gap=gaps_ns.append).run()
    assert reply.outcome == "ok", reply
    assert reply.stats.first_ns is not None
    heard_ns = [reply.stats.first_ns]
    for gap_ns in gaps_ns:
        heard_ns.append(heard_ns[-1] + gap_ns)
    return heard_ns, [int(word) for word in reply.stats.sample.split()]


def _read_fast(url: str, body: bytes) -> tuple[list[int], list[int]]:
    from locust.contrib.fasthttp import FastHttpSession
    from locust.env import Environment

    base = url.rpartition("/v1/")[0]
    session = FastHttpSession(base, Environment().events.request, None)
    heard_ns, sent_ns = [], []
    for row in session.iter_lines("/v1/completions", "POST", data=body):
        now_ns = time.monotonic_ns()
        if row.startswith("data: {"):
            heard_ns.append(now_ns)
            sent_ns.append(int(json.loads(row[6:])["choices"][0]["text"]))
    return heard_ns, sent_ns


def _sleep(options: argparse.Namespace) -> dict[str, list[float]]:
    """How much longer than asked each of many short sleeps took, in ms."""
    until_s, over = time.monotonic() + options.seconds, []
    while (before_s := time.monotonic()) < until_s:
        time.sleep(0.005)
        over.append((time.monotonic() - before_s - 0.005) * 1e3)
    return {"machine": over}


# -- the table ---------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace, found: dict[str, dict[str, list[float]]]) -> None:
    rate = options.streams * options.tokens_per_s
    step = "in step" if options.together else "out of step"
    print(f"{options.streams} streams {step}, {rate:.0f} tokens/s, {options.seconds:.0f} s each; errors in ms")
    print(f"{'':14}{'ours p50':>10}{'p99':>9}{'fast p50':>11}{'p99':>9}{'ratio of p99':>14}")
    for name, label in (("ttft", "TTFT"), ("token", "every token"), ("itl", "ITL (gap)"), ("machine", "machine")):
        ours, fast = sorted(found["ours"][name]), sorted(found["fast"][name])
        ratio = _at(fast, 0.99) / max(1e-6, _at(ours, 0.99))
        print(f"{label:14}{_at(ours, 0.5):>10.3f}{_at(ours, 0.99):>9.3f}{_at(fast, 0.5):>11.3f}{_at(fast, 0.99):>9.3f}"
              f"{ratio:>14.0f}")  # fmt: skip
    cpu = {name: rows["cpu_s"][0] / options.seconds for name, rows in found.items()}
    print(f"client CPU    {cpu['ours']:>10.2f} cores{cpu['fast']:>14.2f} cores")


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    main()
