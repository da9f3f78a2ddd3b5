import pytest

from benchmarks import contract_bind


def test_the_benchmark_prints_a_line_for_each_batch_size_and_the_hit_rate(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--rows", "1", "2", "--rounds", "2", "--loops", "5"]
    assert contract_bind.main([*quick, "--limit-share", "1000"]) == 0
    assert contract_bind.main([*quick, "--limit-share", "0"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("% hits") == 2
    assert "within the limit" in printed
    assert "OVER the limit" in printed
