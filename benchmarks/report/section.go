package report

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// What comes between these lines of a README is written by the benchmark.
const (
	begin = "<!-- benchmark: written by make bench -->\n"
	end   = "<!-- end of benchmark -->\n"
)

// UpdateSection replaces the benchmark's section of a file. A file without the
// marks, or none, is left alone (false).
func (r *Report) UpdateSection(path string) (bool, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var section strings.Builder
	r.WriteMarkdown(&section)
	out, ok := replaceSection(string(raw), section.String())
	if !ok {
		return false, nil
	}
	return true, os.WriteFile(path, []byte(out), 0o644)
}

func replaceSection(text, section string) (string, bool) {
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", false
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", false
	}
	return before + begin + section + end + after, true
}
