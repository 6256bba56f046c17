"""Whether there is a Java for Spark, and how it starts faster.

tools/setup.sh asks whether there is one, and says it in the same words.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from thalweg.errors import UserError

_OLDEST = 17
_RECORD = "THALWEG_RECORD_CLASSES"
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


def archive() -> Path:
    """The file of Spark's classes as the JVM has them in memory; `python -m thalweg.cli.prepare` makes it.

    With it a JVM need not read, check and link some 20,000 classes anew. It fits one Java and one Spark. It
    is in the virtual environment or, without one, in the user's cache folder.
    """
    java = Path(os.environ.get("JAVA_HOME") or "/") / "bin" / "java"
    found = java if java.exists() else Path(shutil.which("java") or "java")
    release = found.resolve().parent.parent / "release"
    about = (str(release), release.read_text() if release.exists() else "", pyspark.__file__)
    name = f"spark-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.jsa"
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / "share" / "thalweg" / name
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg" / name


def record_classes(path: Path) -> None:
    """A JVM that this process starts from now on writes its classes to a file when it ends."""
    os.environ[_RECORD] = str(path)


def class_options() -> list[str]:
    """Options of the JVM: use the archive where there is one. What doesn't fit is ignored, with a warning."""
    if recorded := os.environ.get(_RECORD):
        return [f"-XX:ArchiveClassesAtExit={recorded}", "-Xlog:disable"]
    found = archive()
    if not found.exists() or " " in str(found):
        return []
    return [f"-XX:SharedArchiveFile={found}", "-Xlog:disable", "-Xlog:all=warning:stderr"]
