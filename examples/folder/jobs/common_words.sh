#!/bin/sh
# The ten most common words of the English texts.
set -eu
cat texts/sonnet-18.txt texts/declaration.txt | tr -cs "A-Za-z'" '\n' | tr 'A-Z' 'a-z' | grep . | sort | uniq -c | sort -rn | sed -n '1,10p'
