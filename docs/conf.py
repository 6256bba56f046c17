"""How Sphinx makes a site of the documents: `make docs`.

The source folder is the checkout, so links between the documents, the README and the examples lead to the
same files in the site as in the repository. The documents are written for any reader of Markdown; what only
the site needs is added here, while Sphinx reads them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

project = "Thalweg"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "examples/*/README.md",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
]
exclude_patterns = [".*", "build", "dist", "src", "tests", "tools", "demo-out", "reproduce-out"]

# Headings have the anchors that they have on GitHub.
myst_heading_anchors = 6

html_theme = "pydata_sphinx_theme"
html_title = "Thalweg"
templates_path = ["site/templates"]
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_extra_path = ["site/index.html"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_sidebars = {"**": ["navigation.html"]}
html_theme_options = {
    "logo": {"text": "Thalweg"},
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}

_LINK = re.compile(r"^- \[(.+?)\]\((.+?\.md)\)", re.MULTILINE)
_SECTION = re.compile(r"^## (.+)\n((?:- .*\n)+)", re.MULTILINE)


def _tree(entries: list[str], *options: str) -> str:
    lines = ["", "```{toctree}", ":hidden:", *options, "", *entries, "```", ""]
    return "\n".join(lines)


def navigation(index: str) -> str:
    """The site's navigation: the sections of the start page, and the pages that each of them lists."""
    found = ""
    for section, links in _SECTION.findall(index):
        entries = [f"{text} <{target.removesuffix('.md')}>" for text, target in _LINK.findall(links)]
        found += _tree(entries, f":caption: {section}")
    return found


def add(app: Any, docname: str, source: list[str]) -> None:
    """Adds what only the site needs to the text of a page."""
    if docname == root_doc:
        source[0] += navigation(source[0])
    elif docname == "docs/design/README":
        source[0] += _tree(["20*"], ":glob:").replace(":hidden:\n", "")
    elif docname.startswith("benchmarks/results/"):  # a table that another page includes or links to
        source[0] = f"---\norphan: true\n---\n# {Path(docname).name}\n\n{source[0]}"


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
