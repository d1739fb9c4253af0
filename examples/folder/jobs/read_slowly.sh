#!/bin/sh
# Reads all texts line by line, slowly. Kill it, stop the engine, start it again: it goes on where it was.
# TASKDECK_FD is a descriptor for JSON lines to taskdeck, TASKDECK_CHECKPOINT the last checkpoint that was written to it.
set -eu
all=$(cat texts/*.txt | wc -l)
last=$(printf '%s' "$TASKDECK_CHECKPOINT" | sed -n 's/.*"done":\([0-9]*\).*/\1/p')
number=0
cat texts/*.txt | while IFS= read -r line; do
    number=$((number + 1))
    [ "$number" -gt "${last:-0}" ] || continue
    printf '%s\n' "$line"
    echo "{\"checkpoint\": {\"done\": $number}}" >&"$TASKDECK_FD"
    echo "{\"progress\": [$number, $all]}" >&"$TASKDECK_FD"
    sleep "${SECONDS_A_LINE:-0.2}"
done
