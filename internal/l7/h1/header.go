package h1

import (
	"slices"
	"strings"
)

// Field is one header field, its name in lower case.
type Field = struct{ Name, Value string }

// Header is a list of fields in the order of the wire. The zero value is empty.
// Names given to its methods are in lower case.
type Header struct {
	Fields []Field
	// spelling holds the name of each field as an HTTP/1 peer wrote it. It is
	// as long as Fields.
	spelling []string
}

// Len returns the number of fields.
func (h *Header) Len() int { return len(h.Fields) }

// Spelling returns the name of field i as its sender wrote it.
func (h *Header) Spelling(i int) string { return h.spelling[i] }

// Get returns the value of the first field called name.
func (h *Header) Get(name string) string {
	v, _ := h.Lookup(name)
	return v
}

// Lookup returns the value of the first field called name, and whether there
// is one.
func (h *Header) Lookup(name string) (string, bool) {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value, true
		}
	}
	return "", false
}

// Has reports whether there is a field called name.
func (h *Header) Has(name string) bool {
	_, ok := h.Lookup(name)
	return ok
}

// Add appends a field.
func (h *Header) Add(name, value string) { h.add(name, name, value) }

func (h *Header) add(name, spelling, value string) {
	h.Fields = append(h.Fields, Field{name, value})
	h.spelling = append(h.spelling, spelling)
}

// AddAll appends fields.
func (h *Header) AddAll(fields []Field) {
	for _, f := range fields {
		h.Add(f.Name, f.Value)
	}
}

// Set replaces all fields called name by one, which stands where the first did.
func (h *Header) Set(name, value string) {
	i := slices.IndexFunc(h.Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		h.Add(name, value)
		return
	}
	h.Fields[i].Value = value
	h.deleteFrom(i+1, func(n string) bool { return n == name })
}

// Del removes all fields called name.
func (h *Header) Del(name string) {
	h.deleteFrom(0, func(n string) bool { return n == name })
}

// DelFunc removes the fields whose names del selects.
func (h *Header) DelFunc(del func(name string) bool) { h.deleteFrom(0, del) }

// deleteFrom removes fields from index i on, keeping the order.
func (h *Header) deleteFrom(i int, del func(name string) bool) {
	kept := i
	for ; i < len(h.Fields); i++ {
		if del(h.Fields[i].Name) {
			continue
		}
		if kept != i {
			h.Fields[kept], h.spelling[kept] = h.Fields[i], h.spelling[i]
		}
		kept++
	}
	h.Truncate(kept)
}

// LastIndex returns where the last field called name stands, -1 without one.
func (h *Header) LastIndex(name string) int {
	for i := len(h.Fields) - 1; i >= 0; i-- {
		if h.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Truncate drops all but the first n fields.
func (h *Header) Truncate(n int) {
	h.Fields = h.Fields[:n]
	h.spelling = h.spelling[:n]
}

// Reset empties h and keeps its memory.
func (h *Header) Reset() { h.Truncate(0) }

// CopyFrom makes h a copy of from. The strings are shared.
func (h *Header) CopyFrom(from *Header) {
	h.Fields = append(h.Fields[:0], from.Fields...)
	h.spelling = append(h.spelling[:0], from.spelling...)
}

// CloneStrings has h share no memory with the buffer that its strings are views of.
func (h *Header) CloneStrings() {
	for i := range h.Fields {
		h.Fields[i] = Field{strings.Clone(h.Fields[i].Name), strings.Clone(h.Fields[i].Value)}
		h.spelling[i] = strings.Clone(h.spelling[i])
	}
}
