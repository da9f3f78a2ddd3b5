from collections.abc import Iterator

import pytest

from tests.contract.device.worlds import WORLDS, World


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = WORLDS[request.param]()
    yield made
    made.env.faults.heal_all("shutdown")
    made.device.close()
