"""Whether there is a Java for Spark; tools/setup.sh asks the same and says it in the same words."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from thalweg.errors import UserError

_OLDEST = 17
_HOW = (
    "install it with the system's package manager, such as apt install openjdk-17-jre-headless, "
    "or set JAVA_HOME"
)


def check_java() -> None:
    """Refuse to go on where Spark would find no Java, or one that is too old for it."""
    home = os.environ.get("JAVA_HOME")
    java, place = (
        (str(Path(home) / "bin" / "java"), f"in JAVA_HOME ({home})") if home else ("java", "on the PATH")
    )
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        said = done.stderr + done.stdout
    except OSError:
        said = ""
    version = re.search(r' version "(?:1\.)?([0-9]+)', said)  # Java 8 calls itself 1.8
    if version is None:
        raise UserError(f"Java {_OLDEST} or later is missing, there is none {place}: {_HOW}")
    if int(version[1]) < _OLDEST:
        raise UserError(f"Java {_OLDEST} or later is missing, the one {place} is {version[1]}: {_HOW}")
