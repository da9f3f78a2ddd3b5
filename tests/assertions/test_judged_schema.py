"""The schema is the contract between recorder and judges: its words are pinned here."""

import sqlite3

import pytest

from assertions import schema

FROZEN = {
    "meta": "key value",
    "clock": "t_ns real_ns boot_ns proc offset_ns err_ns",
    "phase": "name n start_ns end_ns ended_by",
    "request": "id load kind grp worker plan_row prompt_sha prompt_tokens output_tokens_max "
    "intended_ns sent_ns cancel_at",
    "reply": "request head_ns first_ns last_ns end_ns cancel_ns outcome http finish error retry_after_s prompt_tokens "
    "output_tokens tokens_from chunks gap_ns_sum gap_ns_max text_sha sample",
    "served": "request server_id proc arrive_ns admit_ns first_ns end_ns outcome finish code tokens_in tokens_out "
    "tokens_cached preempted fallback",
    "hang_up": "request server_id proc t_ns why tokens_seen end_ns outcome tokens",
    "fault": "id n spec seed arm_ns first_ns heal_ns healed_by hits fired fired_min state",
    "fire": "fault n t_ns hit point step request grp evidence proof",
    "series": "id name unit kind source period_ns absent",
    "sample": "series t_ns value",
    "hist": "t_ns width_ns load metric bucket n",
    "canary": "request reference tokens compared parted_at margin state",
    "audit": "t_ns scope name kind owner value expected unit history",
    "mark": "name t_ns n",
    "event": "t_ns proc kind value detail",
    "step": "n t_ns dur_ns batch tokens graph fallback detail",
}


@pytest.mark.parametrize("table", sorted(FROZEN))
def test_columns_are_those_of_history_1_in_that_order(table: str) -> None:
    connection = sqlite3.connect(":memory:")
    schema.create(connection)
    made = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    assert made == FROZEN[table].split()
    assert schema.columns(table) == tuple(made)


def test_no_table_is_missing_or_extra() -> None:
    assert set(schema.TABLES) == set(FROZEN)


def test_a_database_says_which_history_it_is() -> None:
    connection = sqlite3.connect(":memory:")
    schema.create(connection)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.HISTORY_VERSION,)
