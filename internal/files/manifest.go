package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const (
	// maxFile is the most that is read of one file, in bytes.
	maxFile = 64 << 20
	// grace is how long a file has to stay as it is before what is missing from
	// it counts as removed. Editors that replace a file leave it out for a
	// millisecond or two.
	grace = 100 * time.Millisecond
	// tick is how coarse the time of a file's last change may be. Within it a
	// file may change twice without a trace.
	tick = 20 * time.Millisecond
)

// object is one object as one document has it. It stays the same pointer as long
// as the document does.
type object struct {
	key      translate.Key
	value    translate.Object
	rejected *translate.Rejected // instead of value
	doc      *document
	item     string // its text, if it is an item of a list
}

// document is one document of a file, decoded.
type document struct {
	chunk
	objects []*object
	ignored []string // kinds of objects in it that are not read
	broken  error    // why the text could not be parsed
}

// manifest is one file as it was last read.
type manifest struct {
	found
	since time.Time // when it was first seen as it is
	gone  bool      // it is not there any more
	stale bool      // it is to be read whether it seems to have changed or not
	cut   bool      // the text that was read last does not end with a line
	fault error     // why it could not be read as a whole; docs are older then

	docs    []*document
	decoded int // documents, in all
	// missing are objects that it had before, and that may be on their way or
	// hidden in a broken document.
	missing []*object
	changed bool // docs or missing differ from when this was last unset
}

// refresh reads the file if it may have changed. It returns when to look again
// although nothing happens, zero for never.
func (m *manifest) refresh(f found, now time.Time) (again time.Time) {
	changed := m.gone || m.info == nil || !sameState(m.info, f.info)
	m.found, m.gone = f, false
	if changed {
		m.since = now
	}
	if changed || m.stale {
		m.stale = now.Sub(f.info.ModTime()) < tick
		if !m.read(now) {
			m.stale = true
			return m.since.Add(grace)
		}
	}
	return m.settle(now)
}

// vanish notes that the file is not there.
func (m *manifest) vanish(now time.Time) (again time.Time) {
	if !m.gone {
		m.gone, m.since, m.fault = true, now, nil
		m.replace(nil)
	}
	return m.settle(now)
}

// settle gives missing objects up once nothing happened for a while. As long as
// a document is broken, they may be in it.
func (m *manifest) settle(now time.Time) (again time.Time) {
	if len(m.missing) == 0 || m.fault != nil || m.broken() {
		return time.Time{}
	}
	if until := m.since.Add(grace); now.Before(until) {
		return until
	}
	m.missing, m.changed = nil, true
	return time.Time{}
}

func (m *manifest) broken() bool {
	for _, d := range m.docs {
		if d.broken != nil {
			return true
		}
	}
	return false
}

// read takes the documents in. It reports false if the text ends in the middle
// of a line, as it did not before: somebody may still be writing.
func (m *manifest) read(now time.Time) bool {
	content, err := readFile(m.real)
	isJSON := filepath.Ext(m.name) == ".json"
	cut := !isJSON && content != "" && !strings.HasSuffix(content, "\n")
	if cut && !m.cut && now.Sub(m.since) < grace {
		return false
	}
	m.cut = cut
	if err == nil && content == "" && len(m.objects()) > 0 {
		err = errors.New("is empty: its objects stay until something is in it or it is removed")
	}
	var chunks []chunk
	if err == nil {
		chunks, err = split(content, isJSON)
	}
	if m.fault = err; err == nil {
		m.replace(m.decode(chunks))
	} else {
		m.stale = true // rights to read it may be granted without a trace
	}
	return true
}

// decode makes documents of chunks; those whose text was there before are kept.
func (m *manifest) decode(chunks []chunk) []*document {
	known := make(map[string]*document, len(m.docs))
	d := decoder{items: make(map[string]*object)}
	for _, doc := range m.docs {
		known[doc.text] = doc
		for _, o := range doc.objects {
			if o.item != "" {
				d.items[o.item] = o
			}
		}
	}
	docs := make([]*document, len(chunks))
	for i, c := range chunks {
		if doc := known[c.text]; doc != nil {
			delete(known, c.text) // the same text a second time is another document
			doc.chunk = c
			docs[i] = doc
		} else {
			docs[i] = d.decode(c)
			m.decoded++
		}
	}
	return docs
}

// replace puts documents in the place of the present ones.
func (m *manifest) replace(docs []*document) {
	before := m.objects()
	m.docs, m.missing, m.changed = docs, nil, true
	have := make(map[translate.Key]bool, len(before))
	for _, o := range m.objects() {
		have[o.key] = true
	}
	for _, o := range before {
		if !have[o.key] {
			m.missing = append(m.missing, o)
		}
	}
}

// objects lists what is in the file, what is missing last.
func (m *manifest) objects() (list []*object) {
	for _, d := range m.docs {
		list = append(list, d.objects...)
	}
	return append(list, m.missing...)
}

// sameState reports whether nothing shows that a file changed.
func sameState(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func readFile(name string) (string, error) {
	// O_NONBLOCK: should it have become a pipe since it was listed, opening must
	// not wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	var text strings.Builder
	text.Grow(int(min(info.Size(), maxFile)))
	n := info.Size()
	if n <= maxFile {
		n, err = io.Copy(&text, io.LimitReader(f, maxFile+1))
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case n > maxFile:
		return "", fmt.Errorf("is larger than %d MiB: split it", maxFile>>20)
	}
	return text.String(), nil
}
