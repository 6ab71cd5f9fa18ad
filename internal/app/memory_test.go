package app

import (
	"strings"
	"testing"
	"testing/fstest"
)

// files are those of a machine: their names and contents.
type machine map[string]string

func (m machine) fs() fstest.MapFS {
	files := make(fstest.MapFS)
	for name, text := range m {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestCgroupLimit(t *testing.T) {
	tests := []struct {
		name  string
		files machine
		want  int64
	}{
		{"not Linux", machine{}, 0},
		{"version 2, in a container", machine{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "134217728\n",
		}, 128 << 20},
		{"version 2, no limit", machine{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 0},
		{"version 2, on a host", machine{
			"proc/self/cgroup":                           "0::/kubepods/pod1/c1\n",
			"sys/fs/cgroup/kubepods/pod1/c1/memory.max":  "max\n",
			"sys/fs/cgroup/kubepods/pod1/memory.max":     "268435456\n",
			"sys/fs/cgroup/kubepods/memory.max":          "536870912\n",
			"sys/fs/cgroup/kubepods/other/c2/memory.max": "1\n",
		}, 256 << 20},
		{"version 2, a path that leaves the namespace", machine{
			"proc/self/cgroup": "0::/../../pod1\n", "sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/memory.max": "1\n",
		}, 1 << 20},
		{"version 1", machine{
			"proc/self/cgroup": "11:cpu,cpuacct:/docker/1\n9:memory:/docker/1\n0::/docker/1\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "67108864\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 64 << 20},
		{"version 1, in a container that does not see its path", machine{
			"proc/self/cgroup":                           "9:hugetlb,memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "67108864\n",
		}, 64 << 20},
		{"version 1, no limit", machine{
			"proc/self/cgroup":                           "9:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cgroupLimit(tt.files.fs())
			if got != tt.want || err != nil {
				t.Errorf("got %d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

func TestUnreadableCgroupLimitNamesTheFile(t *testing.T) {
	_, err := cgroupLimit(machine{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "plenty\n"}.fs())
	if err == nil || !strings.Contains(err.Error(), "/sys/fs/cgroup/memory.max") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestMaxConnections(t *testing.T) {
	for _, tt := range []struct {
		asked int
		limit int64
		want  int
	}{
		{0, 0, 0},
		{10, 0, 10},
		{10, 1 << 40, 10},
		{0, 1 << 30, 2048},
		{0, 128 << 20, 256},
		{0, 1, 1}, // never none: a limit so small is a mistake, but 0 would mean no limit
	} {
		if got := maxConnections(tt.asked, tt.limit); got != tt.want {
			t.Errorf("asked for %d under %d bytes: %d, want %d", tt.asked, tt.limit, got, tt.want)
		}
	}
}

func TestWindowsStayBelowTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{0: windowBudget, 64 << 20: 8 << 20, 1 << 40: windowBudget} {
		if got := windows(limit); got != want {
			t.Errorf("under %d bytes: %d, want %d", limit, got, want)
		}
	}
}
