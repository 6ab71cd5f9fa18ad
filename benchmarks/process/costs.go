package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ID is the id of a process that runs, by which its costs are read.
type ID int

// CPU returns the user and system time used so far, of all threads, ended ones
// included. It is exact, where /proc/PID/stat counts in ticks of 10 ms.
func (id ID) CPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(cpuClock(id), &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", id, err)
	}
	return time.Duration(ts.Nano()), nil
}

// cpuClock returns the clock of a process's CPU time, as clock_getcpuclockid(3)
// makes it of the process id.
func cpuClock(id ID) int32 {
	const scheduled = 2 // time that the scheduler gave, of the whole process
	return ^int32(id)<<3 | scheduled
}

// RSS returns the resident memory in bytes.
func (id ID) RSS() (int64, error) { return id.status("VmRSS:") }

// PeakRSS returns the most resident memory since the start or ResetPeak.
func (id ID) PeakRSS() (int64, error) { return id.status("VmHWM:") }

// ResetPeak has PeakRSS count anew.
func (id ID) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", id), []byte("5"), 0)
}

func (id ID) status(field string) (int64, error) {
	raw, err := id.read("status")
	if err != nil {
		return 0, err
	}
	kib, err := statusField(raw, field)
	return kib << 10, err
}

func statusField(raw []byte, field string) (int64, error) {
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", field)
}

func (id ID) read(name string) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/%s", id, name))
}
