package report

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// ThisMachine says where we run.
func ThisMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(raw), m.CPU)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// cpuModel finds the model in /proc/cpuinfo. Not every architecture has it there.
func cpuModel(cpuinfo, otherwise string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}
