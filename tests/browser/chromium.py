"""The Chromium of this machine: where it is, and how it is started."""

import os
import shutil
from collections.abc import Mapping

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
)
"""Nothing but the page under test may talk to anybody."""


class NoChromium(Exception):
    """There is no Chromium, or not where it was said to be."""


def find_chromium(environment: Mapping[str, str]) -> str:
    """The program that CHROMIUM names, else the first of NAMES on PATH; NoChromium where there is none."""
    path = environment.get("PATH", os.defpath)
    if given := environment.get("CHROMIUM"):
        if found := shutil.which(given, path=path):
            return found
        raise NoChromium(f"CHROMIUM is {given}, which is no program; name one, or unset it to search PATH")
    for name in NAMES:
        if found := shutil.which(name, path=path):
            return found
    raise NoChromium(
        f"none of {', '.join(NAMES)} is on PATH; install Chromium (the package chromium of Debian), "
        "or set CHROMIUM to its path"
    )


def arguments() -> list[str]:
    """Switches of Chromium; as root it starts without its sandbox only."""
    return [*QUIET, "--no-sandbox"] if os.geteuid() == 0 else list(QUIET)
