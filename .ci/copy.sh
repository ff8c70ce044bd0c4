#!/usr/bin/env bash
# Makes a folder equal to a checkout, by content: copy.sh CHECKOUT FOLDER
#
# Cargo builds again what is newer than its result. A file that did not change keeps its time here, whatever time it
# has in the checkout; a changed or new one gets the present. So a fresh clone costs what changed since the last one.
set -euo pipefail

mkdir -p "$2"
rsync --recursive --links --perms --checksum --delete --exclude=/target --exclude=/dist "$1/" "$2/"
