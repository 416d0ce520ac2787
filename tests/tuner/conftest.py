"""Both interfaces, for promises that they share."""

import pytest


@pytest.fixture(scope="module", params=["hidden", "tokens"])
def interface(request):
    return request.param
