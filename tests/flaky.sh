#!/bin/sh
# Usage: flaky.sh ROUNDS COMMAND... Repeats a command while two busy loops run, until a round fails.
set -eu
rounds=$1
shift
(while :; do :; done) &
one=$!
(while :; do :; done) &
two=$!
trap 'kill $one $two' EXIT
trap 'exit 130' INT TERM
round=1
while [ "$round" -le "$rounds" ]; do
    echo "== round $round of $rounds =="
    "$@" || { echo "Failed in round $round of $rounds." >&2; exit 1; }
    round=$((round + 1))
done
