package telemetry

import (
	"strconv"
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// scratches are shared by all that write lines, the access log and the live view.
var scratches = sync.Pool{New: func() any {
	return &scratch{line: make([]byte, 0, 1024), value: make([]byte, 0, 128)}
}}

// keepScratch is the largest line whose buffer is kept: a few enormous URLs must
// not make all buffers enormous.
const keepScratch = 16 << 10

func (s *scratch) release() {
	if cap(s.line) <= keepScratch && cap(s.value) <= keepScratch {
		scratches.Put(s)
	}
}

// writeText makes s.line the line of f in Istio's default text format.
func (s *scratch) writeText(f *flow.Flow) {
	b := s.line[:0]
	for i := range fields {
		if i > 0 {
			b = append(b, ' ')
		}
		b = s.appendText(b, &fields[i], f)
	}
	s.line = append(b, '\n')
}

func (s *scratch) appendText(b []byte, d *field, f *flow.Flow) []byte {
	v := d.get(f, s)
	if d.style == number {
		return strconv.AppendInt(b, v.number, 10)
	}
	if v.text == "" {
		v.text = "-"
	}
	switch d.style {
	case quoted:
		b = append(b, '"')
		b = appendEscaped(b, v.text, inQuotes)
		return append(b, '"')
	case bracketed:
		b = append(b, '[')
		b = appendEscaped(b, v.text, inText)
		return append(b, ']')
	case opening:
		b = append(b, '"')
		return appendEscaped(b, v.text, inText)
	case closing:
		b = appendEscaped(b, v.text, inText)
		return append(b, '"')
	default:
		return appendEscaped(b, v.text, inText)
	}
}

// writeJSON makes s.line the line of f as a JSON object.
func (s *scratch) writeJSON(f *flow.Flow) {
	b := s.appendMembers(append(s.line[:0], '{'), fields, f)
	b = s.appendMembers(b, jsonFields, f)
	b[len(b)-1] = '}' // the last comma
	s.line = append(b, '\n')
}

func (s *scratch) appendMembers(b []byte, list []field, f *flow.Flow) []byte {
	for i := range list {
		d := &list[i]
		b = append(append(append(b, '"'), d.key...), '"', ':')
		switch v := d.get(f, s); {
		case d.style == number:
			b = strconv.AppendInt(b, v.number, 10)
		case v.text == "":
			b = append(b, "null"...)
		default:
			b = append(b, '"')
			b = appendEscaped(b, v.text, inJSON)
			b = append(b, '"')
		}
		b = append(b, ',')
	}
	return b
}
