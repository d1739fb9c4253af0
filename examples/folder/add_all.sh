#!/bin/sh
# Adds every job of this folder, each with a key of its own: adding them a second time makes no second task.
set -eu
cd "$(dirname "$0")"
for job in jobs/*; do
    echo "#$(taskdeck add --key "folder:$(basename "$job")" "$@" -- "./$job") $job"
done
