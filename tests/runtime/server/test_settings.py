"""Settings are refused with a remedy before anything starts, and the parent stays light."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.server import main, supervisor
from runtime.server.config import ADMIN_TOKEN_ENV, ConfigError, ServerConfig, read_config, server_config
from runtime.server.sockets import bind, stop_listening
from tests.runtime.server.child import build


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_another_host_than_loopback_must_be_meant(host: str) -> None:
    with pytest.raises(ConfigError, match="allow-host"):
        server_config({"host": host})
    assert ServerConfig(host=host, allow_host=True).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_free(host: str) -> None:
    assert ServerConfig(host=host).host == host


def test_flags_win_over_the_file_and_the_engines_table_is_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"server": {"port": 1, "health_stall_s": 3}, "engine": {"kv_blocks": 9}}))
    config, engine = read_config(str(path), port=2, host=None)
    assert (config.port, config.health_stall_s, config.host, engine) == (2, 3, "127.0.0.1", {"kv_blocks": 9})


def test_all_problems_of_a_table_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    wrong = {"prot": 1, "port": "x", "keys": {"a": 1}, "admin": 1, "host": "example.org", "send_max_s": "inf"}
    path.write_text(json.dumps({"server": wrong}))
    with pytest.raises(ConfigError) as caught:
        read_config(str(path))
    told = str(caught.value).removeprefix("config server: ").split("; ")
    assert told == [
        'host "example.org" is not loopback',
        "give 127.0.0.1, or add --allow-host if you mean it",
        "port is 'x'",
        "give a whole number",
        "admin is 1",
        "give true or false",
        "keys.a is 1",
        "give a text",
        "send_max_s is 'inf'",
        "give a number",
        'unknown key "prot"',
        'did you mean "port"?',
    ]


@pytest.mark.parametrize(("field", "value"), [("port", 65536), ("admin_port", -1), ("port", True), ("port", 1.5)])
def test_a_port_is_a_whole_number_of_16_bits(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; give "):
        server_config({field: value})


@pytest.mark.parametrize("text", ["", "[]", '{"srever": {}}'])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_config(str(path))


@pytest.mark.parametrize("field", ["request_timeout_s", "stream_events_max", "send_max_s"])
def test_bounds_are_more_than_nothing(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        server_config({field: 0})


def test_a_key_of_the_environment_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        ServerConfig(keys={"env:NO_SUCH_KEY": "chat"}).groups()


@pytest.mark.parametrize("argv", [["--host", "0.0.0.0"], ["--config", "/nowhere.json"], ["--admin"]])
def test_bad_settings_exit_with_4(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ADMIN_TOKEN_ENV, raising=False)
    assert main.main(argv, build) == 4
    assert supervisor.main(argv) == 4
    assert "seatrial server: " in capsys.readouterr().err


def test_an_engine_that_cannot_be_built_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--model", "none"], build) == 4
    assert 'model "none"' in capsys.readouterr().err


def test_bad_flags_exit_with_4() -> None:
    with pytest.raises(SystemExit) as caught:
        supervisor.main(["--nonsense"])
    assert caught.value.code == 4


def test_the_parent_and_the_points_load_nothing_heavy() -> None:
    code = (
        "import sys, runtime.server.supervisor, runtime.server.config, runtime.server.points;"
        "print([m for m in ('torch', 'numpy', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_port_is_kept_while_nobody_listens_and_clients_are_refused_at_once() -> None:
    with bind("127.0.0.1", 0) as sock:
        address = sock.getsockname()
        for _ in range(2):
            sock.listen()
            socket.create_connection(address, timeout=5).close()
            stop_listening(sock)
            assert sock.getsockname() == address
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=5)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(address)
