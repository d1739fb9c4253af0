#!/bin/sh
# A compressed copy of each text. It is renamed into place, so that a kill leaves no half file behind.
set -eu
mkdir -p out
for text in texts/*.txt; do
    copy="out/$(basename "$text").gz"
    gzip -c "$text" > "$copy.new"
    gzip -t < "$copy.new"
    mv "$copy.new" "$copy"
    echo "$copy"
done
