// Package docs holds the pages for people to what can be checked of them.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ +(.*)$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // what GitHub leaves out of a heading's anchor
)

// TestLinks follows every relative link in the pages, to the heading if it names one.
func TestLinks(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			checkLinks(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkLinks(t *testing.T, page string) {
	t.Helper()
	for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
		target, anchor, _ := strings.Cut(found[1], "#")
		if strings.Contains(target, ":") { // another site
			continue
		}
		to := filepath.Join(filepath.Dir(page), target)
		if target == "" {
			to = page
		}
		if _, err := os.Stat(to); err != nil {
			t.Errorf("%s links to %s, which does not exist", page, found[1])
		} else if anchor != "" && !hasHeading(read(t, to), anchor) {
			t.Errorf("%s links to %s, which has no such heading", page, found[1])
		}
	}
}

func hasHeading(text, anchor string) bool {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
