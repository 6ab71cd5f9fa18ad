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
	of map[translate.Key][]claim // best first, one for each file
	// contested are the objects that several files have, repeated those that a
	// file has in several documents.
	contested map[translate.Key]struct{}
	repeated  map[place][]*object // all but the first
}

// place is an object in a file.
type place struct {
	file *manifest
	key  translate.Key
}

func newClaims() *claims {
	return &claims{
		of:        make(map[translate.Key][]claim),
		contested: make(map[translate.Key]struct{}),
		repeated:  make(map[place][]*object),
	}
}

// update takes in what a file has now of the objects that it touched. Of several
// documents for one object the first counts.
func (c *claims) update(m *manifest) {
	first := make(map[translate.Key]claim, len(m.touched))
	for key := range m.touched {
		delete(c.repeated, place{m, key})
	}
	enter := func(o *object, missing bool) {
		if _, touched := m.touched[o.key]; !touched {
			return
		}
		if _, ok := first[o.key]; !ok {
			first[o.key] = claim{m, o, missing}
		} else if !missing {
			c.repeated[place{m, o.key}] = append(c.repeated[place{m, o.key}], o)
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
	for key := range m.touched {
		c.of[key] = slices.DeleteFunc(c.of[key], func(other claim) bool { return other.file == m })
		if is, ok := first[key]; ok {
			at, _ := slices.BinarySearchFunc(c.of[key], is, compareClaims)
			c.of[key] = slices.Insert(c.of[key], at, is)
		}
	}
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

// counts reports whether an object is taken from this document.
func (c *claims) counts(o *object) bool {
	winner, ok := c.decide(o.key)
	return ok && winner.object == o
}

// duplicates lists the documents that do not count because another one has the
// same object.
func (c *claims) duplicates() (problems []Problem) {
	for at, repeated := range c.repeated {
		i := slices.IndexFunc(c.of[at.key], func(own claim) bool { return own.file == at.file })
		for _, o := range repeated {
			problems = append(problems, duplicate(claim{file: at.file, object: o}, c.of[at.key][i]))
		}
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
