"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, Pictures, require_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of this process."""
    browser = Browser(require_browser(), tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def pictures(browser: Browser, tmp_path: Path) -> Pictures:
    """The pictures of pages that are kept."""
    return Pictures(browser, Path(__file__).parent / "pictures", tmp_path)
