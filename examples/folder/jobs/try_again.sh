#!/bin/sh
# Fails the first time with exit code 75, "try again later", and does well the second time.
set -eu
if [ "$TASKDECK_ATTEMPT" -eq 1 ]; then
    echo "the printer is warming up" >&2
    exit 75
fi
echo "printed at attempt $TASKDECK_ATTEMPT"
