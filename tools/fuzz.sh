#!/usr/bin/env bash
# Runs every fuzz target of the given packages, one after another, sharing the given number of seconds evenly.
# The targets are asked of the compiled tests, so a new one takes part without being listed anywhere.
# A failing input is written to testdata/fuzz of its package: commit it with the fix.
set -euo pipefail

total=${1:?usage: tools/fuzz.sh SECONDS PACKAGES...}
shift
go=${GO:-go}

# `go test -list` prints the names of a package's targets and then a line "ok PACKAGE".
targets=$("$go" test -list '^Fuzz' "$@" |
  awk '/^Fuzz/ { name[++n] = $1 } /^ok/ { for (i = 1; i <= n; i++) print $2, name[i]; n = 0 }')
count=$(grep -c . <<<"$targets" || true)
if [ "$count" -eq 0 ]; then
  echo "fuzz: no targets in this tree"
  exit 0
fi
share=$((total / count))
[ "$share" -gt 0 ] || share=1
echo "fuzz: $count targets, ${share}s each"

failed=0
while read -r package target; do
  echo "fuzz: $package $target"
  # Minimising is for people: in CI the first failing input is enough to know where to look.
  "$go" test -run '^$' -fuzz "^${target}\$" -fuzztime "${share}s" -fuzzminimizetime 5s "$package" </dev/null || failed=1
done <<<"$targets"
exit $failed
