package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tree makes files and links in a new folder: "name" => content, "name" => "-> target"
// for a link, "name/" for a directory.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		name, content, _ := strings.Cut(e, "=")
		put(t, root+"/"+name, content)
	}
	return root
}

// put writes one entry, with what it needs above it.
func put(t testing.TB, path, content string) {
	t.Helper()
	dir := filepath.Dir(path)
	if strings.HasSuffix(path, "/") {
		dir = path
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	switch target, isLink := strings.CutPrefix(content, "-> "); {
	case dir == path:
	case isLink:
		err = os.Symlink(target, path)
	default:
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestList(t *testing.T) {
	elsewhere := tree(t, "x.yaml=a", "sub/y.yaml=b")
	tests := []struct {
		name     string
		entries  []string
		root     string // below the tree
		want     string
		problems int
	}{
		{name: "nothing"},
		{name: "endings", entries: []string{"a.yaml=", "b.yml=", "c.json=", "d.txt=", "e", "f.yaml~="}, want: "a.yaml b.yml c.json"},
		{name: "below", entries: []string{"z.yaml=", "a/b/c.yaml=", "a/d.yaml="}, want: "a/b/c.yaml a/d.yaml z.yaml"},
		{name: "hidden", entries: []string{".a.yaml=", ".git/b.yaml=", "..2024/c.yaml=", ".a.yaml.swp="}},
		{
			name: "kubelet", want: "a.yaml b.yaml",
			entries: []string{"..2024_1/a.yaml=", "..2024_1/b.yaml=", "..data=-> ..2024_1", "a.yaml=-> ..data/a.yaml", "b.yaml=-> ..data/b.yaml"},
		},
		{name: "two links to one file", entries: []string{"a.yaml=-> z.yaml", "b.yaml=-> z.yaml", "z.yaml="}, want: "a.yaml"},
		{name: "two links to one directory", entries: []string{"a=-> d", "d/x.yaml="}, want: "a/x.yaml"},
		{name: "link out of the folder", entries: []string{"a=-> " + elsewhere, "b.yaml=-> " + elsewhere + "/sub/y.yaml"}, want: "a/sub/y.yaml a/x.yaml"},
		{name: "loop", entries: []string{"a/up=-> ..", "a/self=-> self", "a/x.yaml="}, want: "a/x.yaml", problems: 1},
		{name: "loop of files", entries: []string{"a.yaml=-> b.yaml", "b.yaml=-> a.yaml"}, problems: 2},
		{name: "link to nothing", entries: []string{"a.yaml=-> gone.yaml", "b=-> gone", "c.yaml="}, want: "c.yaml", problems: 2},
		{name: "directory with the name of a file", entries: []string{"a.yaml/b.yaml="}, want: "a.yaml/b.yaml"},
		{name: "one file", entries: []string{"a.yaml=", "b.yaml="}, root: "b.yaml", want: "b.yaml"},
		{name: "one file by a link", entries: []string{"d/a=", "b.yaml=-> d/a"}, root: "b.yaml", want: "b.yaml"},
		{name: "folder by a link", entries: []string{"d/a.yaml=", "l=-> d"}, root: "l", want: "l/a.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.entries...)
			l, err := list(filepath.Join(root, tt.root))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range l.files {
				name, _ := filepath.Rel(root, f.name)
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("files %q, want %q", got, tt.want)
			}
			if len(l.problems) != tt.problems {
				t.Errorf("problems %v, want %d", l.problems, tt.problems)
			}
		})
	}
}

func TestListWatches(t *testing.T) {
	elsewhere := tree(t, "d/x.yaml=")
	root := tree(t, "a/b/", "x.yaml=-> "+elsewhere+"/d/x.yaml")
	l, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{root, root + "/a", root + "/a/b", elsewhere + "/d"} {
		if !slices.Contains(l.dirs, want) {
			t.Errorf("%s is not watched, only %v", want, l.dirs)
		}
	}
}

func TestListPipe(t *testing.T) {
	root := tree(t, "a.yaml=")
	if err := syscall.Mkfifo(filepath.Join(root, "p.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := list(root)
	if err != nil || len(l.files) != 1 || len(l.problems) != 1 {
		t.Errorf("files %v, problems %v, %v", l.files, l.problems, err)
	}
}

func TestListMissing(t *testing.T) {
	if _, err := list(filepath.Join(t.TempDir(), "no")); err == nil {
		t.Error("a folder that is not there is read")
	}
}

func TestUnreadable(t *testing.T) {
	l := listing{problems: []Problem{{File: "conf/a"}, {File: "conf/b.yaml"}}}
	for name, want := range map[string]bool{
		"conf/a/x.yaml": true, "conf/b.yaml": true, "conf/ab.yaml": false, "conf/c.yaml": false,
	} {
		if l.unreadable(name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
