#!/usr/bin/env bash
# Builds the documentation site: site.sh MDBOOK FOLDER.
#
# Pages link to each other, and to files such as ../manifests/base/values.yaml, by relative paths, for
# Git hosts. The site has the same tree, so these links work there too: mdBook copies the other files.
set -euo pipefail
mdbook=$1
mkdir -p "$2"
site=$(realpath "$2")
cd "$(dirname "$0")/.."

book=$(mktemp -d)
trap 'rm -rf "$book"' EXIT
pages="$book/pages"
mkdir "$pages"
cp --recursive ./*.md LICENSE docs manifests "$pages"
mv "$pages/docs/book.toml" "$pages/docs/outrigger.css" "$book"
# mdBook names a README.md index.html, but leaves the links to it. The contents are beside each page.
find "$pages" -name '*.md' -exec sed --in-place --regexp-extended \
    's#(\]\([^)]*)README\.md([)\#])#\1index.md\2#g; s#\]\(docs/SUMMARY\.md\)#](index.md)#g' {} +
# The paths of docs/SUMMARY.md are those from docs/; mdBook wants them from the root. Its last entry has the decisions.
{
    sed -E 's#\]\(\.\./#](/#; s#\]\(([^/)][^)]*)#](docs/\1#; s#\]\(/#](#' docs/SUMMARY.md
    for decision in docs/decisions/0*.md; do
        sed -E "1s#^\# [0-9]+\. (.*)#  - [\1]($decision)#; 1q" "$decision"
    done
} >"$pages/SUMMARY.md"
rm "$pages/docs/SUMMARY.md" "$pages/docs/site.sh"
"$mdbook" build --dest-dir "$site" "$book"
