package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// AdoptMemoryLimit tells the Go runtime how much memory the process may use, so
// that it collects garbage harder before the kernel kills it: nine tenths of the
// limit of our cgroup, the rest being for what is not of the Go heap. It does
// nothing if there is none, or if GOMEMLIMIT says it already.
func AdoptMemoryLimit(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, err := cgroupLimit(os.DirFS("/"))
	switch {
	case err != nil:
		log.Warn("the cgroup's memory limit cannot be read: set GOMEMLIMIT if there is one", "error", err)
	case limit > 0:
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// memoryLimit returns that of the Go runtime in bytes, 0 for none.
func memoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

const (
	// bytesPerConnection is what the memory limit is divided by if nobody says
	// how many connections there may be. A tunnel with a hundred idle HTTP
	// connections inside costs about 150 KiB, one with none about 50 (measured;
	// `make conformance` holds the first below 256). The other half of the
	// memory is for what is in flight and for configuration.
	bytesPerConnection = 512 << 10
	// windowBudget is how much all receive windows together may grow beyond
	// what they start with. Under a memory limit it is an eighth of that at most.
	windowBudget = 128 << 20
)

// maxConnections returns how many tunnels may be open at once, 0 for any number:
// as many as were asked for, else as the memory limit allows.
func maxConnections(asked int, limit int64) int {
	if asked > 0 || limit == 0 {
		return asked
	}
	return int(max(limit/bytesPerConnection, 1))
}

func windows(limit int64) int64 {
	if limit == 0 {
		return windowBudget
	}
	return min(windowBudget, limit/8)
}

// cgroupLimit returns the memory limit of the cgroup that we are in, or of one
// above, whichever is lowest: 0 if there is none. In a container the path that the
// kernel names may not be visible, and the limit stands at the root.
func cgroupLimit(root fs.FS) (int64, error) {
	membership, err := fs.ReadFile(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // not Linux
	}
	if err != nil {
		return 0, err
	}
	lowest := int64(0)
	for line := range strings.Lines(string(membership)) {
		dir, file := memoryFiles(strings.TrimSuffix(line, "\n"))
		for ; dir != ""; dir = above(dir) {
			limit, err := readLimit(root, path.Join(dir, file))
			if err != nil {
				return 0, err
			}
			if limit > 0 && (lowest == 0 || limit < lowest) {
				lowest = limit
			}
		}
	}
	return lowest, nil
}

const cgroups = "sys/fs/cgroup"

// memoryFiles says where the cgroup of a line of /proc/self/cgroup has its memory
// limit: "0::PATH" is of version 2, "N:CONTROLLERS:PATH" of version 1
// (cgroups(7)). Empty: not there.
func memoryFiles(line string) (dir, file string) {
	part := strings.SplitN(line, ":", 3)
	if len(part) != 3 {
		return "", ""
	}
	inside := path.Clean("/" + part[2])
	switch {
	case part[0] == "0" && part[1] == "":
		return path.Join(cgroups, inside), "memory.max"
	case slices.Contains(strings.Split(part[1], ","), "memory"):
		return path.Join(cgroups, "memory", inside), "memory.limit_in_bytes"
	}
	return "", ""
}

// above returns the folder of the cgroup above, empty at the root.
func above(dir string) string {
	if up := path.Dir(dir); up != path.Dir(cgroups) {
		return up
	}
	return ""
}

// unlimited is from where on a number means no limit: version 1 writes the
// largest multiple of a page.
const unlimited = 1 << 60

// readLimit returns 0 if there is no limit, or no such file.
func readLimit(root fs.FS, name string) (int64, error) {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	value := string(bytes.TrimSpace(text))
	if value == "max" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/%s: expected a number of bytes: %w", name, err)
	}
	if limit >= unlimited {
		return 0, nil
	}
	return limit, nil
}
