#!/usr/bin/env bash
# Builds the waypoint of another commit as .cache/bench-base/waypoint, for a benchmark of the whole
# proxy beside that of this tree: make bench-base BASE=commit.
set -euo pipefail
cd "$(dirname "$0")/.."

base=$(git rev-parse --verify --quiet "${1:?which commit to build}^{commit}") || {
  echo "base: no commit $1" >&2
  exit 2
}
tree=$PWD/.cache/bench-base/tree
rm -rf .cache/bench-base
git worktree prune
git worktree add --quiet --detach "$tree" "$base"
trap 'git worktree remove --force "$tree"' EXIT
(cd "$tree" && make --silent build && cp bin/waypoint ..)
