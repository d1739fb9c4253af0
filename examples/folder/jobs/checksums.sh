#!/bin/sh
# A checksum of each text, checked right away.
set -eu
mkdir -p out
sha256sum texts/*.txt > out/SHA256SUMS
sha256sum -c out/SHA256SUMS
