#!/usr/bin/env bash
# Pushes the images of dist/release with ORAS, and with them their bills of materials and provenance:
# push.sh REPOSITORY, as registry.example.com/outrigger. Further arguments go to `oras cp`.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=$1
shift
for archive in dist/release/*.oci.tar; do
    image=$(basename "$archive" .oci.tar)
    # NAME-VERSION; names have hyphens too, versions begin with a digit.
    name=${image%%-[0-9]*}
    version=${image#"$name"-}
    oras cp --recursive --from-oci-layout "$archive:$version" "$repository/$name:$version" "$@"
done
