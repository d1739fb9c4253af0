#!/bin/sh
# The longest line of each text.
set -eu
for text in texts/*.txt; do
    awk -v name="$text" 'length($0) > length(longest) { longest = $0 } END { print name ": " longest }' "$text"
done
