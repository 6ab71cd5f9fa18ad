package h2

import (
	"hash/maphash"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// maxEncoderTable bounds the dynamic table that we compress with (RFC 7541). A
// peer may ask for a smaller one.
const maxEncoderTable = 4096

// staticCount is the number of entries of the static table (RFC 7541 appendix A).
const staticCount = 61

// staticFields and staticNames are the static table by field and by name. They
// are read out of hpack, which does not export it.
var staticFields, staticNames = func() (map[Field]byte, map[string]byte) {
	fields, names := make(map[Field]byte, staticCount), make(map[string]byte, staticCount)
	dec := hpack.NewDecoder(0, nil)
	for i := byte(staticCount); i > 0; i-- { // the first of a name wins
		list, err := dec.DecodeFull([]byte{0x80 | i})
		if err != nil {
			panic(err) // indexes 1 to 61 exist by definition
		}
		names[list[0].Name] = i
		fields[Field{list[0].Name, list[0].Value}] = i
	}
	return fields, names
}()

// encoder compresses header sections. Unlike hpack.Encoder it keeps nothing of
// what is passed to it, so that fields may be views of a buffer, and it does not
// allocate for fields that differ with every request: a field enters the table
// only when it comes a second time, and trace ids and dates never do.
type encoder struct {
	entries  []tableEntry // oldest first
	size     int          // as RFC 7541 section 4.1 counts
	max      int
	announce bool // the next section begins with the new size
	// seen holds hashes of fields that came lately, the last four for each value
	// of their low bits.
	seen [16][4]uint32
}

type tableEntry struct {
	text    string // name and value
	nameLen int
	hash    uint32
}

func (e *tableEntry) is(hash uint32, name, value string) bool {
	return e.hash == hash && e.nameLen == len(name) && len(e.text) == len(name)+len(value) &&
		e.text[:e.nameLen] == name && e.text[e.nameLen:] == value
}

func newEncoder() encoder { return encoder{max: maxEncoderTable} }

var hashSeed = maphash.MakeSeed()

func hashField(name, value string) uint32 {
	return uint32(maphash.String(hashSeed, name)*31 + maphash.String(hashSeed, value))
}

// setMax follows the peer's SETTINGS_HEADER_TABLE_SIZE. The table starts anew.
func (e *encoder) setMax(n uint32) {
	limit := int(min(n, maxEncoderTable))
	if limit == e.max {
		return
	}
	e.max, e.announce = limit, true
	e.entries, e.size = nil, 0
}

// evict makes room for n bytes.
func (e *encoder) evict(n int) {
	drop := 0
	for ; drop < len(e.entries) && e.size+n > e.max; drop++ {
		e.size -= len(e.entries[drop].text) + 32
	}
	rest := copy(e.entries, e.entries[drop:])
	clear(e.entries[rest:])
	e.entries = e.entries[:rest]
}

// begin appends what a header section has to begin with: after a change, size 0,
// which empties the peer's table as ours was, and the new one (RFC 7541 section
// 4.2).
func (e *encoder) begin(p []byte) []byte {
	if !e.announce {
		return p
	}
	e.announce = false
	p = appendInt(p, 0x20, 5, 0)
	return appendInt(p, 0x20, 5, e.max)
}

// field appends one field.
func (e *encoder) field(p []byte, name, value string) []byte {
	if i, ok := staticFields[Field{name, value}]; ok {
		return append(p, 0x80|i)
	}
	if secret(name) {
		return e.literal(p, 0x10, 4, name, value)
	}
	hash := hashField(name, value)
	for i := len(e.entries) - 1; i >= 0; i-- {
		if e.entries[i].is(hash, name, value) {
			return appendInt(p, 0x80, 7, staticCount+len(e.entries)-i)
		}
	}
	if !e.again(hash) || len(name)+len(value)+32 > e.max {
		return e.literal(p, 0x00, 4, name, value)
	}
	e.insert(hash, name, value)
	return e.literal(p, 0x40, 6, name, value)
}

// again reports whether the field with this hash came before, lately.
func (e *encoder) again(hash uint32) bool {
	last := &e.seen[hash%uint32(len(e.seen))]
	for _, h := range last {
		if h == hash {
			return true
		}
	}
	copy(last[1:], last[:])
	last[0] = hash
	return false
}

func (e *encoder) insert(hash uint32, name, value string) {
	n := len(name) + len(value) + 32
	e.evict(n)
	e.size += n
	e.entries = append(e.entries, tableEntry{
		text: strings.Join([]string{name, value}, ""), nameLen: len(name), hash: hash,
	})
}

// literal appends a field in full, with the name by index where the static table
// has it.
func (e *encoder) literal(p []byte, kind byte, prefix uint, name, value string) []byte {
	i := staticNames[name]
	p = appendInt(p, kind, prefix, int(i))
	if i == 0 {
		p = appendString(p, name)
	}
	return appendString(p, value)
}

// secret reports whether a field must not be compressed with others, where its
// value could be guessed from sizes (RFC 7541 section 7.1.3).
func secret(name string) bool {
	switch name {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return true
	}
	return false
}

// appendInt appends n with a prefix of so many bits, below the bits of kind (RFC
// 7541 section 5.1).
func appendInt(p []byte, kind byte, prefix uint, n int) []byte {
	limit := 1<<prefix - 1
	if n < limit {
		return append(p, kind|byte(n))
	}
	p = append(p, kind|byte(limit))
	for n -= limit; n >= 0x80; n >>= 7 {
		p = append(p, 0x80|byte(n))
	}
	return append(p, byte(n))
}

// appendString appends s, in Huffman code if that is shorter.
func appendString(p []byte, s string) []byte {
	n := int(hpack.HuffmanEncodeLength(s))
	if n >= len(s) {
		return append(appendInt(p, 0, 7, len(s)), s...)
	}
	return hpack.AppendHuffmanString(appendInt(p, 0x80, 7, n), s)
}
