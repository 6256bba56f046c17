import pytest

from tests.cli.conftest import CATALOG, QUERY, folder

__all__ = ["CATALOG", "QUERY", "apart", "folder"]


@pytest.fixture
def apart(folder):
    """The streams at different sites, so that there is something to plan."""
    head, _, tail = (folder / "catalog.yaml").read_text().rpartition("site: n1")
    (folder / "catalog.yaml").write_text(f"{head}site: n2{tail}")
    return folder
