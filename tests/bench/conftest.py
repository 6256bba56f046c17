from __future__ import annotations

import pytest

from thalweg.spark.session import session


@pytest.fixture(scope="session")
def spark():
    return session(master="local[2]")
