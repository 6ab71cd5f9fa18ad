package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// claim is one file's claim to an object.
type claim struct {
	file    *manifest
	object  *object
	missing bool // the file had it, see manifest.missing
}

// compareClaims orders those who claim one object: files that have it before
// those that had it, then by name.
func compareClaims(a, b claim) int {
	if a.missing != b.missing {
		if a.missing {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.file.name, b.file.name)
}

// claims decides from which document each object is taken.
type claims struct {
	of    map[translate.Key][]claim // best first
	files map[*manifest]map[translate.Key]claim
	// contested are the objects that several files have.
	contested map[translate.Key]struct{}
	repeated  map[*manifest][]Problem // documents for an object that the same file has before
}

func newClaims() *claims {
	return &claims{
		of:        make(map[translate.Key][]claim),
		files:     make(map[*manifest]map[translate.Key]claim),
		contested: make(map[translate.Key]struct{}),
		repeated:  make(map[*manifest][]Problem),
	}
}

// update takes in what a file has now, and adds the objects for which that makes
// a difference to touched.
func (c *claims) update(m *manifest, touched map[translate.Key]struct{}) {
	before, now := c.files[m], c.collect(m)
	for key, was := range before {
		if is, ok := now[key]; !ok || is != was {
			c.of[key] = slices.DeleteFunc(c.of[key], func(other claim) bool { return other.file == m })
			touched[key] = struct{}{}
		}
	}
	for key, is := range now {
		if was, ok := before[key]; !ok || is != was {
			at, _ := slices.BinarySearchFunc(c.of[key], is, compareClaims)
			c.of[key] = slices.Insert(c.of[key], at, is)
			touched[key] = struct{}{}
		}
	}
	if c.files[m] = now; len(now) == 0 {
		delete(c.files, m)
	}
}

// collect lists the claims of a file; of two documents for one object the first
// counts.
func (c *claims) collect(m *manifest) map[translate.Key]claim {
	delete(c.repeated, m)
	now := make(map[translate.Key]claim, len(c.files[m]))
	enter := func(o *object, missing bool) {
		first, ok := now[o.key]
		if !ok {
			now[o.key] = claim{m, o, missing}
		} else if !missing {
			c.repeated[m] = append(c.repeated[m], duplicate(claim{m, o, false}, first))
		}
	}
	for _, d := range m.docs {
		for _, o := range d.objects {
			enter(o, false)
		}
	}
	for _, o := range m.missing {
		enter(o, true)
	}
	return now
}

// decide says where an object is taken from; false: nobody has it.
func (c *claims) decide(key translate.Key) (winner claim, ok bool) {
	list := c.of[key]
	if len(list) > 1 && !list[1].missing {
		c.contested[key] = struct{}{}
	} else {
		delete(c.contested, key)
	}
	if len(list) == 0 {
		delete(c.of, key)
		return claim{}, false
	}
	return list[0], true
}

// duplicates lists the documents that do not count because another one has the
// same object.
func (c *claims) duplicates() (problems []Problem) {
	for _, repeated := range c.repeated {
		problems = append(problems, repeated...)
	}
	for key := range c.contested {
		list := c.of[key]
		for _, other := range list[1:] {
			if !other.missing {
				problems = append(problems, duplicate(other, list[0]))
			}
		}
	}
	return problems
}

// duplicate says that one document does not count beside another. That is no
// fault if both say the same, as Namespaces often are repeated in every file.
func duplicate(loser, winner claim) Problem {
	return Problem{
		File:    loser.file.name,
		Line:    loser.object.doc.line,
		Object:  loser.object.key.String(),
		Fault:   fmt.Sprintf("is in %s:%d as well, which stays in force: remove one of the two", winner.file.name, winner.object.doc.line),
		Warning: strings.TrimSpace(loser.object.doc.text) == strings.TrimSpace(winner.object.doc.text),
	}
}
