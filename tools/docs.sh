#!/usr/bin/env bash
# Makes the site of the documentation: docs.sh PYTHON OUT. Whatever Sphinx warns of is an error: a link that
# leads nowhere, a missing picture, a page that no other lists. It reads every page anew, because it warns of
# a page only when it reads it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1 out=$2
rm -rf "$out"
"$python" -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --write-all \
    --conf-dir docs --doctree-dir "$out.doctrees" --builder html . "$out"
rm -rf "$out.doctrees"
