package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	odd     []*document // those of docs that have something to be told of
	decoded int         // documents, in all
	// missing are objects that it had before, and that may be on their way or
	// hidden in a broken document.
	missing []*object
	// touched are the objects for which docs or missing differ since the claims
	// were told, see claims.update.
	touched map[translate.Key]struct{}
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
		m.replace(0, len(m.docs), nil)
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
	m.touch(m.missing)
	m.missing = nil
	return time.Time{}
}

func (m *manifest) broken() bool {
	return slices.ContainsFunc(m.odd, func(d *document) bool { return d.broken != nil })
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
	if err == nil && content == "" && !m.empty() {
		err = errors.New("is empty: its objects stay until something is in it or it is removed")
	}
	var chunks []chunk
	if err == nil {
		chunks, err = split(content, isJSON)
	}
	if m.fault = err; err == nil {
		m.decode(chunks)
	} else {
		m.stale = true // rights to read it may be granted without a trace
	}
	return true
}

// decode makes documents of chunks; those whose text was there before are kept.
// Most edits change a few in a row, so that only those have to be looked up.
func (m *manifest) decode(chunks []chunk) {
	same, end, newEnd := 0, len(m.docs), len(chunks)
	for ; same < min(end, newEnd) && m.docs[same].text == chunks[same].text; same++ {
		m.docs[same].chunk = chunks[same] // the old text is not to be held
	}
	for ; min(end, newEnd) > same && m.docs[end-1].text == chunks[newEnd-1].text; end, newEnd = end-1, newEnd-1 {
		m.docs[end-1].chunk = chunks[newEnd-1]
	}
	known := slices.Clone(m.docs[same:end])
	for _, o := range m.missing { // of a file that was gone for a moment
		known = append(known, o.doc)
	}
	d := newDecoder(known)
	docs := make([]*document, 0, newEnd-same)
	for _, c := range chunks[same:newEnd] {
		docs = append(docs, d.decode(c))
	}
	m.decoded += d.decoded
	m.replace(same, end, docs)
}

// replace puts documents in the place of those from start to end.
func (m *manifest) replace(start, end int, docs []*document) {
	before := m.missing
	for _, d := range m.docs[start:end] {
		before = append(before, d.objects...)
	}
	m.docs = slices.Concat(m.docs[:start], docs, m.docs[end:])
	m.odd = nil
	for _, d := range m.docs {
		if d.broken != nil || len(d.ignored) > 0 {
			m.odd = append(m.odd, d)
		}
	}
	m.touch(before)
	for _, d := range docs {
		m.touch(d.objects)
	}
	have := m.having(before)
	m.missing = nil
	for _, o := range before {
		if !have[o.key] {
			m.missing = append(m.missing, o)
		}
	}
}

func (m *manifest) touch(objects []*object) {
	if m.touched == nil {
		m.touched = make(map[translate.Key]struct{})
	}
	for _, o := range objects {
		m.touched[o.key] = struct{}{}
	}
}

// having tells which of some objects are in the documents.
func (m *manifest) having(objects []*object) map[translate.Key]bool {
	have := make(map[translate.Key]bool, len(objects))
	for _, o := range objects {
		have[o.key] = false
	}
	for _, d := range m.docs {
		for _, o := range d.objects {
			if _, asked := have[o.key]; asked {
				have[o.key] = true
			}
		}
	}
	return have
}

// empty reports whether nothing is or was in the file.
func (m *manifest) empty() bool {
	return len(m.missing) == 0 && !slices.ContainsFunc(m.docs, func(d *document) bool { return len(d.objects) > 0 })
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
