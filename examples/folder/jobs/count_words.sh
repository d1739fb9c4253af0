#!/bin/sh
# How many lines, words and bytes each text has.
set -eu
mkdir -p out
wc texts/*.txt | tee out/words.txt
