#!/usr/bin/env bash
# Runs the go benchmarks of this tree and of another commit, one after the other and
# again, and prints what benchstat makes of it. Alternating spreads what the machine
# does meanwhile over both sides.
#
#   benchmarks/compare.sh COMMIT [PACKAGE...]     default: every package that has benchmarks
#
# COUNT (6) runs of each side, BENCH (.) to choose benchmarks, BENCHTIME (0.3s) for each.
set -euo pipefail
cd "$(dirname "$0")/.."

base=$(git rev-parse --verify --quiet "${1:?which commit to compare with}^{commit}") || {
  echo "compare: no commit $1" >&2
  exit 2
}
shift
work=$PWD/.cache/bench-compare
tree=$work/tree
rm -rf "$work"
mkdir -p "$work/base" "$work/head"
git worktree prune
git worktree add --quiet --detach "$tree" "$base"
trap 'git worktree remove --force "$tree"' EXIT

packages=("$@")
if [ ${#packages[@]} -eq 0 ]; then
  mapfile -t packages < <(grep -rl --include='*_test.go' '^func Benchmark' internal | xargs -n1 dirname | sort -u)
fi

# build compiles the benchmarks of a tree, each package into a binary of its own. A package
# that one side lacks is left out there, and benchstat shows the other side alone.
build() {
  local side=$1 root=$2 package
  for package in "${packages[@]}"; do
    package=${package#./}
    [ -d "$root/$package" ] || continue
    (cd "$root" && go test -c -o "$work/$side/${package//\//_}.test" "./$package")
  done
}

# measure runs what build has made, in the package's folder, where its test data is.
measure() {
  local side=$1 root=$2 package binary
  for package in "${packages[@]}"; do
    package=${package#./}
    binary=$work/$side/${package//\//_}.test
    [ -x "$binary" ] || continue
    (cd "$root/$package" && "$binary" -test.run '^$' -test.bench "${BENCH:-.}" -test.benchmem -test.benchtime "${BENCHTIME:-0.3s}") >>"$work/$side.txt"
  done
}

build base "$tree"
build head "$PWD"
for ((i = 1; i <= ${COUNT:-6}; i++)); do
  echo "round $i of ${COUNT:-6}" >&2
  measure base "$tree"
  measure head "$PWD"
done
.cache/bin/benchstat "base=$work/base.txt" "head=$work/head.txt"
