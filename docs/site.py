"""What mkdocs needs beyond the pages of this folder: README as the first page, other pages of the repository, and the
files that pages link to, so that every link of the repository works on the site as well."""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
HOME = "index.md"
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")  # of the repository, outside this folder
_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(?=\))")
_MODULE = re.compile(r"^<!-- functions of (futad\.\w+) -->$", re.MULTILINE)
_FENCE = re.compile(r"(^```.*?^```$|^(?: {4}.*\n)+|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the repository, and what any page links to, under the folder `repository`."""
    for name in (HOME, *PAGES):
        files.append(File.generated(config, name, content=(ROOT / _repository(name)).read_text()))
    for page in list(files.documentation_pages()):
        for link, _ in _LINK.findall(_outside_code(_source(page.src_uri))):
            path = _resolved(page.src_uri, link)
            target = _site(path)
            if target.startswith("repository/") and (ROOT / path).is_file() and target not in files.src_uris:
                files.append(File.generated(config, target, content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as seen from the page's place on the site; a table where all functions of a module are asked for."""
    markdown = _MODULE.sub(lambda found: functions(found[1]), markdown)

    def moved(found: re.Match[str]) -> str:
        uri = page.file.src_uri
        return posixpath.relpath(_site(_resolved(uri, found[1])), posixpath.dirname(uri) or ".") + (found[2] or "")

    parts = _FENCE.split(markdown)
    return "".join([part if k % 2 else _LINK.sub(moved, part) for k, part in enumerate(parts)])


def functions(module: str) -> str:
    """A table of a module's functions, with the first sentence of each one's documentation."""
    sys.path.insert(0, str(ROOT))
    place = importlib.import_module(module)
    rows = ["| function | what it is |", "|---|---|"]
    for name in sorted(place.__all__):
        made = getattr(place, name)
        if not inspect.isclass(made) and callable(made) and inspect.getdoc(made):
            first = " ".join((inspect.getdoc(made) or "").split("\n\n")[0].split())
            rows.append(f"| `{name}{_signature(made)}` | {first.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def _signature(function: Any) -> str:
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(inspect.Signature(plain)).replace("|", "\\|")


def _source(uri: str) -> str:
    return (ROOT / _repository(uri)).read_text()


def _outside_code(text: str) -> str:
    return "".join(_FENCE.split(text)[::2])


def _repository(uri: str) -> str:
    """Where in the repository the site's page is."""
    return "README.md" if uri == HOME else uri if uri in PAGES else f"docs/{uri}"


def _site(path: str) -> str:
    """Where on the site a file of the repository is."""
    if path == "README.md":
        return HOME
    if path in PAGES:
        return path
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def _resolved(uri: str, link: str) -> str:
    """The path in the repository of a link on the site's page."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(_repository(uri)), link))
