"""A page in Chromium, and what it did there."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page


@dataclass
class Visit:
    """An open page: the addresses that it asked for, and what it complained of."""

    page: Page
    origin: str
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    server_goes: bool = False  # on purpose, of which the browser complains

    def text(self, element: str) -> str:
        """The text of the element with this id."""
        return self.page.locator(f"#{element}").inner_text()

    def row(self, title: str) -> list[str]:
        """The cells of the table row whose title begins so."""
        head = self.page.get_by_role("rowheader", name=re.compile(f"^{re.escape(title)}"))
        return self.page.get_by_role("row").filter(has=head).get_by_role("cell").all_inner_texts()

    def check(self) -> None:
        """Nothing left the server's origin, and nothing was complained of."""
        assert [address for address in self.asked if not address.startswith((f"{self.origin}/", "data:"))] == []
        gone = "net::ERR_CONNECTION_REFUSED" if self.server_goes else None
        assert [text for text in self.complaints if not (gone and gone in text)] == []


@dataclass
class Visits:
    """Opens pages."""

    browser: Browser
    made: list[Visit]

    def __call__(self, port: int, width: int = 1400, height: int = 900, **other: Any) -> Visit:
        """The status page of the server at this port, in a window of this size."""
        visit = self.blank(f"http://127.0.0.1:{port}", width, height, **other)
        visit.page.goto(f"{visit.origin}/")
        assert urlsplit(visit.page.url).netloc == f"127.0.0.1:{port}"
        return visit

    def file(self, path: Path, width: int = 1400, height: int = 900, **other: Any) -> Visit:
        """A page in a file."""
        visit = self.blank("file://", width, height, **other)
        visit.page.goto(path.as_uri())
        return visit

    def blank(self, origin: str, width: int, height: int, **other: Any) -> Visit:
        """An empty page in a window of this size, watched."""
        page = self.browser.new_context(viewport={"width": width, "height": height}, **other).new_page()
        visit = Visit(page, origin)
        page.on("request", lambda request: visit.asked.append(request.url))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on(
            "console", lambda line: visit.complaints.append(line.text) if line.type in ("error", "warning") else None
        )
        self.made.append(visit)
        return visit
