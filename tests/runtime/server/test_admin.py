"""/admin/*: for the harness alone, and able to heal what hangs the engine."""

import httpx
import pytest

from runtime.core.messages import Call, Submit
from runtime.server.config import ADMIN_TOKEN_ENV, ConfigError, server_config
from tests.runtime.server.conftest import TOKEN, Start

SPEC = {"id": "oom", "n": 0, "do": "kv.take: oom", "when": {"times": 3}}


@pytest.mark.parametrize(
    ("headers", "http", "code"),
    [
        ({}, 401, "wrong_token"),
        ({"Authorization": "Bearer wrong"}, 401, "wrong_token"),
        ({"Authorization": TOKEN}, 401, "wrong_token"),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 403, "wrong_host"),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1.evil.example:80"}, 403, "wrong_host"),
        ({"Authorization": f"Bearer {TOKEN}", "Host": ""}, 403, "wrong_host"),
        ({"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}, 200, None),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "[::1]:9"}, 200, None),
    ],
)
def test_who_is_let_in(start: Start, headers: dict[str, str], http: int, code: str | None) -> None:
    running = start(admin=True)
    reply = httpx.get(f"{running.admin_url}/admin/info", headers=headers)
    assert reply.status_code == http
    assert reply.json().get("error", {}).get("code") == code


def test_strangers_do_not_learn_which_routes_there_are(start: Start) -> None:
    assert httpx.get(f"{start(admin=True).admin_url}/nothing").status_code == 401


def test_without_admin_there_is_no_such_port_or_route(start: Start) -> None:
    running = start()
    assert "admin_port" not in running.ready
    reply = running.http.post("/admin/faults", json=SPEC, headers={"Authorization": f"Bearer {TOKEN}"})
    assert reply.status_code == 404


def test_admin_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADMIN_TOKEN_ENV, raising=False)
    with pytest.raises(ConfigError, match=ADMIN_TOKEN_ENV):
        server_config({"admin": True})


def test_arm_list_heal(start: Start) -> None:
    running = start(admin=True)
    assert running.admin("POST", "/admin/faults", json=SPEC).json() == {"armed": [{"id": "oom", "n": 0}]}
    listed = running.admin("GET", "/admin/faults").json()["faults"]
    assert [(each["id"], each["state"], each["hits"]) for each in listed] == [("oom", "armed", 0)]
    assert 'seatrial_fault_active{fault="oom"} 1.0' in running.http.get("/metrics").text
    assert running.admin("DELETE", "/admin/faults/oom?n=0").json() == {"healed": 1}
    assert running.admin("DELETE", "/admin/faults/oom?n=5").status_code == 404
    assert running.admin("DELETE", "/admin/faults/oom?n=x").status_code == 400
    states = [row["state"] for row in running.rows("fault")]
    assert states[0] == "armed"
    assert states[-1] == "healed"
    assert running.rows("fault")[-1]["spec"]["do"] == "kv.take: oom"


def test_a_list_is_armed_whole_or_not_at_all(start: Start) -> None:
    running = start(admin=True)
    wrong = {**SPEC, "id": "b", "do": "kv.tkae: oom"}
    reply = running.admin("POST", "/admin/faults", json=[SPEC, wrong])
    assert reply.status_code == 400
    assert 'did you mean "kv.take"' in reply.json()["error"]["message"]
    assert running.admin("GET", "/admin/faults").json() == {"faults": []}
    assert running.admin("POST", "/admin/faults", json=[SPEC, {**SPEC, "n": 1}]).status_code == 200
    assert running.admin("DELETE", "/admin/faults").json() == {"healed": 2}


def test_a_bad_body_is_400(start: Start) -> None:
    running = start(admin=True)
    assert running.admin("POST", "/admin/faults", content=b"{").json()["error"]["code"] == "invalid_json"
    assert running.admin("POST", "/admin/faults", json={"id": "x"}).json()["error"]["code"] == "bad_fault"


def test_arming_needs_no_turn_of_the_engine(start: Start) -> None:
    """By hand, and nobody turns: a hung engine must be healable."""
    running = start(by_hand=True, admin=True)
    assert running.admin("POST", "/admin/faults", json=SPEC).status_code == 200
    assert running.admin("POST", "/admin/heartbeat").status_code == 200
    assert running.admin("DELETE", "/admin/faults").json() == {"healed": 1}
    assert running.served.mailbox.take() == []


def test_an_audit_names_owners_by_the_clients_ids_and_is_written_down(start: Start) -> None:
    running = start(admin=True)
    running.http.post("/v1/completions", json={"prompt": "x"}, headers={"X-Request-Id": "leaky"})
    submit = next(each for each in running.served.seen if isinstance(each, Submit))
    running.served.held = {submit.request_id: 3}
    reply = running.admin("POST", "/admin/audit?scope=quiesce").json()
    assert [(row["name"], row["owner"], row["value"], row["expected"]) for row in reply["rows"]] == [
        ("kv_blocks", "leaky", 3, 0),
        ("server.exchanges", "", 0, 0),
    ]
    written = running.rows("audit")
    assert [{key: row[key] for key in row if key != "e"} for row in written] == reply["rows"]
    assert all(row["t_ns"] == reply["t_ns"] for row in written)


def test_an_unknown_audit_scope_is_refused(start: Start) -> None:
    assert start(admin=True).admin("POST", "/admin/audit?scope=all").status_code == 400


def test_an_audit_of_an_engine_that_hangs_gives_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.server.admin._ENGINE_WAIT_S", 0.01)
    running = start(by_hand=True, admin=True)
    reply = running.admin("POST", "/admin/audit")
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "engine_busy")
    running.served.mail(Call)


def test_a_failing_audit_does_not_end_the_engine(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(admin=True)
    with monkeypatch.context() as patched:
        patched.setattr(running.served, "audit", lambda scope: 1 / 0)
        assert running.admin("POST", "/admin/audit").status_code == 500
    assert running.http.post("/v1/completions", json={"prompt": "x"}).status_code == 200


def test_drain_shuts_the_door_and_waits_for_those_inside(start: Start) -> None:
    running = start(admin=True, by_hand=True)
    sock = running.connect({"prompt": "x"})
    running.served.mail(Submit)
    early = running.admin("POST", "/admin/drain").json()
    assert (early["drained"], early["open"]) == (False, 1)
    reply = running.http.post("/v1/completions", json={"prompt": "y"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "draining")
    assert running.http.get("/health").status_code == 503
    sock.close()


def test_drain_tells_the_engine_and_can_be_waited_for(start: Start) -> None:
    running = start(admin=True, by_hand=True)
    assert running.admin("POST", "/admin/drain?timeout_s=9").json()["drained"] is True
    call = running.served.mail(Call)
    assert isinstance(call, Call)
    call.do()
    assert running.served.drained


def test_drain_with_a_bad_bound_is_refused_and_shuts_nothing(start: Start) -> None:
    running = start(admin=True)
    assert running.admin("POST", "/admin/drain?timeout_s=soon").status_code == 400
    assert running.http.get("/health").status_code == 200


def test_info(start: Start) -> None:
    info = start(admin=True).admin("GET", "/admin/info").json()
    assert info["model"] == "fake"
    assert info["pid"] > 0
    assert info["kv_blocks"] == 8


def test_memory_is_told_in_numbers_and_as_a_table(start: Start) -> None:
    running = start(admin=True)
    told = running.admin("GET", "/admin/memory").json()
    (pool,) = told["pools"]
    assert (pool["pool"], pool["held_bytes"], pool["live"]) == ("activation", 768, 3)
    assert pool["hit_rate"] == pytest.approx(8 / 9)
    assert pool["fragmentation"] == pytest.approx(1 - 3000 / 3328)
    assert told["unowned_bytes"] == {"decode": 8}
    assert told["free_bytes"] == 1 << 30
    head, row = told["table"]
    assert head.split()[:4] == ["pool", "total", "asked", "held"]
    assert row.split()[0] == "activation"
    text = running.http.get("/metrics").text
    assert 'seatrial_pool_bytes{pool="activation",state="held"} 768.0' in text
    assert 'seatrial_pool_missed_total{pool="activation"} 1.0' in text
    assert 'seatrial_unowned_bytes{phase="decode"} 8.0' in text
    assert "seatrial_device_free_bytes 1.073741824e+09" in text


def test_memory_of_an_engine_that_hangs_gives_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.server.admin._ENGINE_WAIT_S", 0.01)
    running = start(admin=True, by_hand=True)
    assert running.admin("GET", "/admin/memory").status_code == 504
    running.served.mail(Call)
