"""Fixtures for the tests of the Python front end."""

from collections.abc import Iterator

import pytest

from penstock.tools.frontend.python.session import current_session


@pytest.fixture(autouse=True)
def _own_default_session() -> Iterator[None]:
    """A default session for each test: a call compiles all jobs of its session."""
    yield
    current_session().close()
